"""What properdocs.yml cannot say. Files outside docs/ that a page links to become pages, so that the site needs nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files, InclusionLevel
from properdocs.structure.pages import Page
from tools.docs.links import DOCS, ROOT, found, links, rewritten, slug, uri

STYLE = ROOT / "src" / "labeldp" / "report" / "templates" / "style.css"  # the site looks as labeldp's own pages do
LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml", ".yml": "yaml", ".json": "json"}


def on_config(config: ProperDocsConfig) -> ProperDocsConfig:
    """Anchors are GitHub's."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Files, *, config: ProperDocsConfig) -> Files:
    """Add the style, and a page for every file outside docs/ that some page links to."""
    files.append(File.generated(config, "assets/base.css", content=STYLE.read_text(encoding="utf-8")))
    waiting = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    seen = set(waiting)
    while waiting:
        origin = waiting.pop()
        for target, _ in links(origin.read_text(encoding="utf-8")):
            place = found(target, origin)
            if place is None or place.is_relative_to(DOCS) or place in seen:
                continue
            seen.add(place)
            page = File.generated(config, uri(place), content=_shown(place), inclusion=InclusionLevel.NOT_IN_NAV)
            files.append(page)
            if place.suffix == ".md":
                waiting.append(place)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """Lead links to where their files are in the site."""
    source = page.file.abs_src_path
    return rewritten(markdown, Path(source), page.file.src_uri) if source else markdown


def on_page_content(html: str, **_: Any) -> str:
    """Wide tables scroll by themselves, not with the page."""
    return re.sub(r"<table>.*?</table>", r'<div class="wide">\g<0></div>', html, flags=re.DOTALL)


def on_post_build(*, config: ProperDocsConfig) -> None:
    """The search index as a script, which a page that was opened from the disk may load too."""
    folder = Path(config.site_dir) / "search"
    index = json.loads((folder / "search_index.json").read_text(encoding="utf-8"))
    text = json.dumps(index["docs"], ensure_ascii=False)
    (folder / "index.js").write_text(f"window.searchIndex = {text};\n", encoding="utf-8")
    (folder / "search_index.json").unlink()


def _shown(place: Path) -> str:
    """A file of the repository as Markdown."""
    name = place.relative_to(ROOT).as_posix()
    if place.is_dir():
        inside = sorted(
            path.name + "/" * path.is_dir() for path in place.iterdir() if not path.name.startswith((".", "_"))
        )
        return f"# {name}/\n\n" + "".join(f"- {entry}\n" for entry in inside)
    text = place.read_text(encoding="utf-8")
    if place.suffix == ".md":
        return rewritten(text, place, uri(place))
    return f"# {name}\n\n~~~~{LANGUAGES.get(place.suffix, 'text')}\n{text.rstrip()}\n~~~~\n"
