"""The second plugin of `busbw run`, which adds the tests that busbw ships (shipped tests).

The shipped tests run unless the user passes paths of other tests. The shipped tests are outside of
the user's repository. Nevertheless pytest uses the root directory and the ini file of the current
directory, because pytest looks for both before it calls the hooks of this plugin.
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
    """Add the paths of the shipped tests to the arguments of pytest.

    All shipped tests are added in front of `args` if `args` names no path. If `args` names shipped
    tests, such as ``busbw/perf/...``, each name is replaced by the path of the test. `args` is
    changed in place.
    """
    folder, arguments = shipped_folder("perf"), early_config.known_args_namespace
    paths = [_resolve_shipped_test(argument, early_config, folder) for argument in args]
    shipped_paths = [path for argument, path in zip(args, paths) if path != argument]
    args[:] = paths
    if arguments.file_or_dir and not shipped_paths:
        return
    early_config.pluginmanager.register(_ShippedTests(folder), "busbw tests")
    if not shipped_paths:
        # Files are added in place of their folder, because the user's python_files need not match
        # them. The files are first, because they would be the value of an option such as
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
    """Load the module `run`, which fails a session of `busbw run` if no test reads a verdict."""
    load_plugin_module(session, "run")


def _resolve_shipped_test(argument: str, config: pytest.Config, folder: Path) -> str:
    """Return the path of the shipped test that `argument` names, or else `argument` itself.

    The reports of pytest call a shipped test ``busbw/perf/...``. If the user has a file with this
    name, `argument` means this file, and is returned unchanged.

    Args:
        argument: An argument of pytest, such as ``busbw/perf/test_collectives.py``.
        config: The config of pytest, with the root directory and the current directory.
        folder: The folder of the shipped tests.

    """
    file, colons, test = argument.partition("::")
    path = Path(os.path.normpath(config.invocation_params.dir / file))
    for root in (config.rootpath, config.invocation_params.dir):
        if path.is_relative_to(root / _SHIPPED_FOLDER) and not path.exists():
            return f"{folder / path.relative_to(root / _SHIPPED_FOLDER)}{colons}{test}"
    return argument


class _ShippedTests:
    """A plugin of pytest, whose hooks collect the shipped tests in the folder `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pytest_configure(self, config: pytest.Config) -> None:
        """Raise pytest.UsageError if an option lets pytest-xdist start processes.

        Otherwise each of these processes would raise an error of its own.
        """
        if config.getoption("numprocesses", None):
            raise pytest.UsageError(
                "busbw: it measures alone on the machine, and -n (perhaps in addopts) lets "
                "pytest-xdist start several processes; expected -n0"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Return True for paths next to the folder of the shipped tests, or next to its parents.

        pytest then ignores these paths, for example all packages in site-packages. Returns None for
        any other path, which pytest handles as usual.
        """
        return True if collection_path.parent in self._folder.parents else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Module | None:
        """Return a module of shipped tests under the name ``busbw/perf/...``.

        The name is the same wherever busbw is installed. Returns None for any other module.
        """
        if module_path.parent != self._folder:
            return None
        name = f"{_SHIPPED_FOLDER}/{module_path.name}"
        return pytest.Module.from_parent(parent, path=module_path, nodeid=name)
