"""Limits of the operating system: a session that reaches a limit ends with a sentence."""

from __future__ import annotations

import pytest

from tests.helpers.session_fixtures import folder, forked, written
from tests.helpers.session_folder import Folder

__all__ = ["folder", "forked", "written"]

# The limit holds while the session measures, and not for what pytest writes and loads.
LIMITED = """
import os
import resource

import pytest

BEFORE = resource.getrlimit(resource.{name})


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    resource.setrlimit(resource.{name}, ({limit}, BEFORE[1]))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    resource.setrlimit(resource.{name}, BEFORE)
"""


@pytest.mark.parametrize(
    ("name", "limit", "sentence"),
    [
        ("RLIMIT_NOFILE", 'len(os.listdir("/proc/self/fd")) + 4', "Too many open files"),
        ("RLIMIT_FSIZE", "10_000", "File too large"),
    ],
)
def test_a_limit_of_the_operating_system_that_a_session_reaches_is_a_usage_error(
    folder: Folder, name: str, limit: str, sentence: str
) -> None:
    with (folder.path / "conftest.py").open("a") as conftest:
        conftest.write(LIMITED.format(name=name, limit=limit))
    ran = folder.run(exit_code=4, reports=False)
    assert sentence in ran.sentence
    assert "INTERNALERROR" not in ran.text and "Traceback" not in ran.text
