"""Limits of the operating system: an error names the limit and how to raise it."""

from __future__ import annotations

import errno
import os

import pytest

from busbw.session.option import UsageError, raise_with_remedy
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
        (
            "RLIMIT_NOFILE",
            'len(os.listdir("/proc/self/fd")) + 4',
            "Too many open files; raise the limit on open files (ulimit -n)",
        ),
        (
            "RLIMIT_FSIZE",
            "10_000",
            "File too large; raise the limit on the size of a file (ulimit -f)",
        ),
    ],
)
def test_a_limit_of_the_operating_system_that_a_session_reaches_is_a_usage_error(
    folder: Folder, name: str, limit: str, sentence: str
) -> None:
    with (folder.path / "conftest.py").open("a") as conftest:
        conftest.write(LIMITED.format(name=name, limit=limit))
    ran = folder.run(exit_code=4, reports=False)
    assert ran.sentence.endswith(sentence)
    assert "INTERNALERROR" not in ran.text and "Traceback" not in ran.text


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.EAGAIN])
def test_an_error_of_the_operating_system_names_its_file_and_a_remedy(number: int) -> None:
    words = f"^/tmp/file: {os.strerror(number)}; .+"
    with pytest.raises(UsageError, match=words), raise_with_remedy(UsageError):
        raise OSError(number, os.strerror(number), "/tmp/file")


def test_an_error_that_is_no_limit_of_the_operating_system_is_raised_unchanged() -> None:
    with pytest.raises(FileNotFoundError), raise_with_remedy(UsageError):
        raise FileNotFoundError(errno.ENOENT, "there is no such file")
