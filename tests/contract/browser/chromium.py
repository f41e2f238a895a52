"""The browser of the system, never a downloaded one, and a page that is open in it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog
    from playwright.sync_api import Page as BrowserPage

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
    """Return the browser's path. Raises BrowserError."""
    named = os.environ.get(PROGRAM)
    path = next(filter(None, map(shutil.which, [named] if named else PROGRAMS)), None)
    if path is None and named:
        raise BrowserError(f"{PROGRAM}={named} is no program")
    if path is None:
        raise BrowserError(
            f"there is none of {', '.join(PROGRAMS)}: apt-get install chromium, or name the "
            f"program in {PROGRAM}"
        )
    return path


@contextlib.contextmanager
def started() -> Iterator[Browser]:
    """Start a headless browser, and end it. Raises BrowserError."""
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


_MEASURES = Path(__file__).with_name("measures.js").read_text(encoding="utf-8")
_HEIGHT = 900
# As much of a page as a screenshot can hold.
_MOST_PIXELS = 15_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A page in a browser. `requests` and `messages` grow while it is open."""

    page: BrowserPage
    address: str
    theme: Any
    width: int
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def measure(self, name: str, *arguments: object) -> Any:
        """Return what the function of that name in measures.js returns."""
        call = f"arguments => ({_MEASURES}).{name}(...arguments)"
        return self.page.evaluate(call, list(arguments))

    def settle(self) -> None:
        """Wait until nothing was requested for half a second."""
        self.page.wait_for_load_state("networkidle")

    @contextlib.contextmanager
    def seen_as(self, width: int | None = None, **media: Any) -> Iterator[None]:
        """Show the page in a window of that width, with that ``media`` or ``color_scheme``."""
        self.page.set_viewport_size({"width": width or self.width, "height": _HEIGHT})
        self.page.emulate_media(**media)
        try:
            yield
        finally:
            self.page.set_viewport_size({"width": self.width, "height": _HEIGHT})
            self.page.emulate_media(media="null", color_scheme=self.theme)

    def screenshot(self) -> bytes:
        """Return the whole page as PNG, or as much as fits."""
        width, height = self.measure("size")
        clip: Any = {"x": 0, "y": 0, "width": width, "height": min(height, _MOST_PIXELS)}
        taken: bytes = self.page.screenshot(full_page=True, clip=clip, animations="disabled")
        return taken

    def pdf(self) -> bytes:
        """Return the page as it is printed, with its colours."""
        margin: Any = dict.fromkeys(("top", "right", "bottom", "left"), "1cm")
        printed: bytes = self.page.pdf(format="A4", margin=margin, print_background=True)
        return printed


@contextlib.contextmanager
def opened(
    browser: Browser,
    path: Path,
    *,
    theme: Any = "light",
    width: int = 1280,
    scripts: bool = True,
    offline: bool = False,
) -> Iterator[Opened]:
    """Open the page of the file in a new profile."""
    context = browser.new_context(
        viewport={"width": width, "height": _HEIGHT},
        color_scheme=theme,
        java_script_enabled=scripts,
        offline=offline,
    )
    try:
        page = context.new_page()
        view = Opened(page=page, address=path.absolute().as_uri(), theme=theme, width=width)

        def dismiss(dialog: Dialog) -> None:
            view.messages.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("request", lambda request: view.requests.append(request.url))
        page.on("console", lambda line: view.messages.append(f"{line.type}: {line.text}"))
        page.on("pageerror", lambda error: view.messages.append(f"error: {error}"))
        page.on("dialog", dismiss)
        page.goto(view.address)
        yield view
    finally:
        context.close()
