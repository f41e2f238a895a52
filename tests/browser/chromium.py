"""Where the browser is, and how it is started: that of the system, never a downloaded one."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Set by the tox environment `browser`: without it no page is opened.
ASKED = "BUSBW_BROWSER"
# The program to take instead of the first that is found.
PROGRAM = "BUSBW_CHROMIUM"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = {
    "playwright": "playwright",
    "axe_playwright_python": "axe-playwright-python",
    "pypdf": "pypdf",
}


class BrowserError(Exception):
    """There is no browser, or nothing to drive it with; the message says what to install."""


def not_asked() -> str:
    """Why no page is opened in this run of the tests; empty if they are."""
    return "" if os.environ.get(ASKED) else f"{ASKED} is not set; `tox -e browser` sets it"


def program() -> str:
    """The browser's path. Raises BrowserError."""
    named = os.environ.get(PROGRAM)
    if named and not shutil.which(named):
        raise BrowserError(f"{PROGRAM}={named} is no program")
    found = filter(None, map(shutil.which, [named] if named else PROGRAMS))
    path = next(found, None)
    if path is None:
        raise BrowserError(
            f"there is none of {', '.join(PROGRAMS)}: apt-get install chromium, or name the "
            f"program in {PROGRAM}"
        )
    return path


@contextlib.contextmanager
def started() -> Iterator[Browser]:
    """A headless browser, which is ended. Raises BrowserError."""
    absent = [name for module, name in PACKAGES.items() if not importlib.util.find_spec(module)]
    if absent:
        raise BrowserError(f"not installed: {', '.join(absent)}; `tox -e browser` installs them")
    from playwright.sync_api import sync_playwright

    path = program()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path)
        try:
            yield browser
        finally:
            browser.close()
