"""The plugin of `busbw run`: without paths, the tests are those that busbw ships.

These tests are outside of the user's repository. The root directory and the ini file are
nevertheless those that pytest finds from the current directory, where it looked before any hook of
this file is called.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from busbw.session.files import shipped_folder

from . import load

# The folder in the names of the tests, wherever busbw is installed.
_NAME = "busbw/perf"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Add the shipped tests to `args` if they name no tests, and find the tests that they name."""
    folder, arguments = shipped_folder("perf"), early_config.known_args_namespace
    paths = [_path(argument, early_config, folder) for argument in args]
    shipped = [path for argument, path in zip(args, paths) if path != argument]
    args[:] = paths
    if arguments.file_or_dir and not shipped:
        return
    early_config.pluginmanager.register(_ShippedTests(folder), "busbw tests")
    if not shipped:
        # Files: the user's python_files need not match them. At the front: behind an option such as
        # --update-baselines they would be its value.
        shipped = sorted(str(path) for path in folder.glob("test_*.py"))
        args[:0] = shipped
    # The conftest.py of the current directory and of those above it; none of other tests.
    current = early_config.invocation_params.dir
    conftests = [path / "conftest.py" for path in (current, *current.parents)]
    files = [str(path) for path in conftests if path.is_file()]
    arguments.file_or_dir = [*files, *shipped]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Load what fails a session that reads no verdict."""
    load(session, "run")


def _path(argument: str, config: pytest.Config, folder: Path) -> str:
    """Return the path of a shipped test that is named as the output names it, else `argument`."""
    file, colons, test = argument.partition("::")
    path = Path(os.path.normpath(config.invocation_params.dir / file))
    for root in (config.rootpath, config.invocation_params.dir):
        if path.is_relative_to(root / _NAME) and not path.exists():
            return f"{folder / path.relative_to(root / _NAME)}{colons}{test}"
    return argument


class _ShippedTests:
    """Collects the shipped tests in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pytest_configure(self, config: pytest.Config) -> None:
        """Raise one error for all tests if an ini file lets pytest-xdist start processes."""
        if config.getoption("numprocesses", None):
            raise pytest.UsageError(
                "busbw: it measures alone on the machine, and -n (perhaps in addopts) lets "
                "pytest-xdist start several processes; expected -n0"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Skip what is beside the folder and those above, such as all of site-packages."""
        return True if collection_path.parent in self._folder.parents else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Module | None:
        """Name a module as in the package, not by its path."""
        if module_path.parent != self._folder:
            return None
        name = f"{_NAME}/{module_path.name}"
        return pytest.Module.from_parent(parent, path=module_path, nodeid=name)
