"""The plugin of `busbw run` alone, which runs the tests that busbw ships unless paths are passed.

These tests are outside of the user's repository. Nevertheless pytest uses the root directory and
the ini file of the current directory, because it looks for both before it calls the hooks below.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from busbw.session.command_line import shipped_folder

from . import load_plugin_module

# The folder in the names of the shipped tests, wherever busbw is installed.
_SHIPPED_FOLDER = "busbw/perf"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Replace names of shipped tests in `args` by their paths; without a path, add all of them."""
    folder, arguments = shipped_folder("perf"), early_config.known_args_namespace
    paths = [_path_of(argument, early_config, folder) for argument in args]
    shipped_paths = [path for argument, path in zip(args, paths) if path != argument]
    args[:] = paths
    if arguments.file_or_dir and not shipped_paths:
        return
    early_config.pluginmanager.register(_ShippedTests(folder), "busbw tests")
    if not shipped_paths:
        # Files are added in place of their folder, because the user's python_files need not match
        # them. They are first, because they would be the value of an option such as
        # --update-baselines if they followed it.
        shipped_paths = sorted(str(path) for path in folder.glob("test_*.py"))
        args[:0] = shipped_paths
    # pytest loads the conftest.py files of the current directory and of its parents, and not of
    # the folder of the shipped tests.
    current_folder = early_config.invocation_params.dir
    conftests = [path / "conftest.py" for path in (current_folder, *current_folder.parents)]
    files = [str(path) for path in conftests if path.is_file()]
    arguments.file_or_dir = [*files, *shipped_paths]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Load `run.py`, which fails a session in which no test reads a verdict."""
    load_plugin_module(session, "run")


def _path_of(argument: str, config: pytest.Config, folder: Path) -> str:
    """Return the path of the shipped test that `argument` names, or else `argument` itself.

    pytest's reports call a shipped test ``busbw/perf/...``, which is usually no file of the user;
    such a file of the user is preferred. `folder` is the folder of the shipped tests.
    """
    file, colons, test = argument.partition("::")
    path = Path(os.path.normpath(config.invocation_params.dir / file))
    for root in (config.rootpath, config.invocation_params.dir):
        if path.is_relative_to(root / _SHIPPED_FOLDER) and not path.exists():
            return f"{folder / path.relative_to(root / _SHIPPED_FOLDER)}{colons}{test}"
    return argument


class _ShippedTests:
    """The hooks of pytest that collect the shipped tests in the folder `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pytest_configure(self, config: pytest.Config) -> None:
        """Raise a single error for all tests if an option lets pytest-xdist start processes."""
        if config.getoption("numprocesses", None):
            raise pytest.UsageError(
                "busbw: it measures alone on the machine, and -n (perhaps in addopts) lets "
                "pytest-xdist start several processes; expected -n0"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Ignore all files next to the folder and next to its parents, such as site-packages."""
        return True if collection_path.parent in self._folder.parents else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Module | None:
        """Name a module of shipped tests ``busbw/perf/...``, wherever busbw is installed.

        Returns None for any other module.
        """
        if module_path.parent != self._folder:
            return None
        name = f"{_SHIPPED_FOLDER}/{module_path.name}"
        return pytest.Module.from_parent(parent, path=module_path, nodeid=name)
