"""Links lead to a file, and to a heading that it has."""

from pathlib import Path

import pytest
from tools.docs.links import headings, links, rewritten, slug

from tests.docs.blocks import ROOT, pages, read

OTHERS = ["CONTRIBUTING.md", "CHANGELOG.md"]


@pytest.mark.parametrize("page", [*pages(), *OTHERS])
def test_links_lead_somewhere(page):
    for target, anchor in links(read(page)):
        place = (ROOT / page).parent / target if target else ROOT / page
        assert place.exists(), target
        if anchor:
            assert anchor in headings(place.read_text()), f"{target}#{anchor}"


def test_what_is_a_link():
    page = "[a](b.md) [c](../d.md#e-f) `[x](y.md)` [s](https://x.org/y.md) ![p](q.svg) [h](#here)\n\n```text\n[z](z.md)\n```\n"
    assert list(links(page)) == [("b.md", ""), ("../d.md", "e-f"), ("q.svg", ""), ("", "here")]


def test_anchors_are_githubs():
    assert slug("In *stages*: ε = 2, `labeldp pate run`!") == "in-stages-ε--2-labeldp-pate-run"
    assert headings("# A b\n\n## C\n\n```bash\n# no\n```\n\n## C\n") == ["a-b", "c", "c-1"]


def test_links_out_of_docs_become_pages():
    guide, readme = ROOT / "docs" / "concepts" / "trust.md", ROOT / "README.md"
    text = "[a](../owner.md#budgets) [b](../../examples/digits.py) [c](../../README.md) `[d](../owner.md)` [e](nowhere.md) [f](#here)"
    assert rewritten(text, guide, "concepts/trust.md") == (
        "[a](../owner.md#budgets) [b](../files/examples/digits.py.md) [c](../files/README.md) `[d](../owner.md)` [e](nowhere.md) [f](#here)"
    )
    assert (
        rewritten("[a](docs/owner.md) [b](CONTRIBUTING.md)", readme, "files/README.md")
        == "[a](../owner.md) [b](CONTRIBUTING.md)"
    )
    assert Path(ROOT / "examples" / "digits.py").exists()
