"""A page as text and numbers, for tests that read it."""

import re
from html.parser import HTMLParser

from labeldp.report.page import Report


def page(*folders, **options):
    return Report.of(list(folders), **options).html()


def numbers(html):
    """The unrounded values that stand beside those that people read."""
    return {float(value) for value in re.findall(r'<data value="([^"]+)"', html)}


def text(html):
    class Words(HTMLParser):
        def __init__(self):
            super().__init__()
            self.words, self.skipped = [], False

        def handle_starttag(self, tag, attrs):
            self.skipped = tag in ("style", "script") or self.skipped

        def handle_endtag(self, tag):
            self.skipped = self.skipped and tag not in ("style", "script")

        def handle_data(self, data):
            if not self.skipped:
                self.words.append(data)

    parser = Words()
    parser.feed(html)
    return re.sub(r"\s+", " ", " ".join(parser.words))
