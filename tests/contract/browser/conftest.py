"""The browser, started once, and the pages, written once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract.browser import chromium, written
from tests.contract.browser.chromium import Opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Open = Callable[..., AbstractContextManager[Opened]]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start the browser; tests fail and do not skip where it is requested and missing."""
    if reason := chromium.not_asked():
        pytest.skip(reason)
    with chromium.started() as started:
        yield started


@pytest.fixture
def look(browser: Browser) -> Open:
    """Return the function that opens the page of a file: ``look(path, theme="dark")``."""
    return partial(chromium.opened, browser)


@pytest.fixture(scope="session")
def pages(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Write every kind of page, and return their paths by name."""
    return written.pages(tmp_path_factory.mktemp("pages"))
