"""A plugin of its own, for `busbw run`: without paths, the tests are the promises that busbw ships.

They lie outside of the user's repository. The root directory and the ini file are nevertheless
those that pytest finds from the current directory, where it looked before any hook here is called.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from busbw.session.folders import shipped_folder

# How the tests are named, wherever busbw is installed.
_NAME = "busbw/perf"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Add the promises to `args` where they name no test, and find those that they name."""
    folder, known = shipped_folder("perf"), early_config.known_args_namespace
    found = [_found(one, early_config, folder) for one in args]
    named = [new for old, new in zip(args, found) if new != old]
    args[:] = found
    if known.file_or_dir and not named:
        return
    early_config.pluginmanager.register(_Promises(folder), "busbw promises")
    if not named:
        # Files: the user's python_files need not match them. At the front: what stands behind an
        # option such as --update-baselines would be its value.
        named = sorted(str(path) for path in folder.glob("test_*.py"))
        args[:0] = named
    # The conftest.py of the current directory and of those above it; none of other tests.
    here = early_config.invocation_params.dir
    own = [path / "conftest.py" for path in (here, *here.parents)]
    known.file_or_dir = [*(str(path) for path in own if path.is_file()), *named]


def _found(argument: str, config: pytest.Config, folder: Path) -> str:
    """Below the root directory, relative to the current one, as the output names a promise."""
    file, colons, test = argument.partition("::")
    path = Path(os.path.normpath(config.invocation_params.dir / file))
    for root in (config.rootpath, config.invocation_params.dir):
        if path.is_relative_to(root / _NAME) and not path.exists():
            return f"{folder / path.relative_to(root / _NAME)}{colons}{test}"
    return argument


class _Promises:
    """How the promises in `folder` are collected."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pytest_configure(self, config: pytest.Config) -> None:
        """One error for all, where an ini file asks pytest-xdist for several processes."""
        if config.getoption("numprocesses", None):
            raise pytest.UsageError(
                "busbw: it measures alone on the machine, and pytest-xdist is asked for several "
                "processes at once (-n, perhaps in addopts); -n0 turns that off"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Skip what is next to the folder and those above, such as all of site-packages."""
        return True if collection_path.parent in self._folder.parents else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(
        self, module_path: Path, parent: pytest.Collector
    ) -> pytest.Module | None:
        """A module is named as in the package, not by its path."""
        if module_path.parent != self._folder:
            return None
        name = f"{_NAME}/{module_path.name}"
        return pytest.Module.from_parent(parent, path=module_path, nodeid=name)
