"""Take pictures of pages: `python -m tests.contract.browser.shots PAGES... --into DIR`.

Below DIR a folder for each page, named after its file: `light.png`, `dark.png`, `400.png` (as wide
as a phone), `print.pdf`, and where pdftoppm is installed `print-1.png` and so on, a sheet each.
Existing files of these names are overwritten.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.browser import chromium
from tests.contract.browser.chromium import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VIEWS: Mapping[str, Mapping[str, Any]] = {
    "light": {},
    "dark": {"theme": "dark"},
    "400": {"width": 400},
}


def shots(browser: Browser, page: Path, folder: Path) -> Iterator[Path]:
    """Write the pictures of a page into the folder; each when it is written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, view in VIEWS.items():
        with opened(browser, page, **view) as found:
            path = folder / f"{name}.png"
            path.write_bytes(found.screenshot())
            yield path
    with opened(browser, page) as found:
        printed = folder / "print.pdf"
        printed.write_bytes(found.pdf())
    yield printed
    yield from _sheets(printed)


def _sheets(printed: Path) -> Iterator[Path]:
    """The sheets of a PDF as pictures, if there is a program for it."""
    stem = printed.with_suffix("")
    for old in printed.parent.glob(f"{stem.name}-*.png"):
        old.unlink()
    if shutil.which("pdftoppm"):
        subprocess.run(["pdftoppm", "-r", "80", "-png", str(printed), str(stem)], check=True)
        yield from sorted(printed.parent.glob(f"{stem.name}-*.png"))


def main(arguments: Sequence[str]) -> int:
    """Write all and name each; the exit code, 2 where a page or the browser is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.contract.browser.shots", description=__doc__
    )
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGES", help="HTML files")
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="written here")
    options = parser.parse_args(arguments)
    pages: list[Path] = options.pages
    for page in pages:
        if not page.is_file():
            parser.error(f"{page} is no file")
    names = [page.stem for page in pages]
    if len(set(names)) < len(names):
        parser.error(f"the names must differ: {', '.join(names)}")
    try:
        with chromium.started() as browser:
            for page in pages:
                for path in shots(browser, page, options.into / page.stem):
                    print(f"wrote {path}", flush=True)
    except chromium.BrowserError as error:
        print(f"shots: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
