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
    """The browser; where it was asked for and is missing, tests fail and do not skip."""
    if reason := chromium.not_asked():
        pytest.skip(reason)
    with chromium.started() as started:
        yield started


@pytest.fixture
def look(browser: Browser) -> Open:
    """What opens the page of a file, such as ``look(path, theme="dark")``."""
    return partial(chromium.opened, browser)


@pytest.fixture(scope="session")
def pages(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Every kind of page by its name."""
    return written.pages(tmp_path_factory.mktemp("pages"))
