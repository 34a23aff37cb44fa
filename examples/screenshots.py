"""Take the README's pictures: `python examples/screenshots.py demo docs/images`, after `make demo`. Needs chromium and playwright."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

# What to show of which page: how it is called, how wide and high, and in which light.
SHOTS = (
    ("report.html", "report", 1000, 1130, "light"),
    ("plan.html", "plan", 1000, 1130, "light"),
)


def main(pages: Path, images: Path) -> None:
    images.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for page, name, width, height, scheme in SHOTS:
            opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            opened.goto((pages / page).absolute().as_uri())
            opened.screenshot(path=images / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
