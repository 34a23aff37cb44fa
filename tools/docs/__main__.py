"""`python -m tools.docs`: write both references, and the README's table."""

from __future__ import annotations

from pathlib import Path

from tools.docs import commands, names, readme

ROOT = Path(__file__).parents[2]
PAGES = {"docs/reference/cli.md": commands.page, "docs/reference/api.md": names.page, "README.md": readme.page}


def main() -> None:
    """Write what changed, and say so."""
    for name, page in PAGES.items():
        path, text = ROOT / name, page().rstrip() + "\n"
        stale = not path.exists() or path.read_text(encoding="utf-8") != text
        if stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(f"{name}: {'written' if stale else 'up to date'}")


if __name__ == "__main__":
    main()
