"""What tests leave is in pytest's folder for temporary files, and keeps no session waiting.

Which of them start a framework is marked, so that they can be left out, and seen to.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from busbw import extensions
from tests.helpers import frameworks as real
from tests.helpers.session_fixtures import folder, forked, written
from tests.helpers.watch import sitecustomize as watch

__all__ = ["folder", "forked", "written"]

# A busy machine makes no example wrong.
settings.register_profile("busbw", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busbw")


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folders, of processes that tests start too, lie in pytest's, which removes them.

    Their sessions wait for each other, and for none of another test process or of the machine.
    """
    folder = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        patch.setenv("BUSBW_MACHINE", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Sessions that tests start can be interrupted, also where a shell runs the tests beside it.

    It has what it starts in the background ignore keys that end a program, and `nohup` the end of a
    terminal, and so would all that is started here.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            is_key = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_key else signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Provide a folder with a file for each framework that a process of this session imported."""
    folder = tmp_path_factory.mktemp("imported")
    path = [str(Path(watch.__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(watch.SEEN, str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        yield folder


@pytest.fixture(autouse=True)
def without_framework(request: pytest.FixtureRequest, imported: Path) -> Iterator[None]:
    """Fail a test without the marker `framework` if one of its processes imports a framework."""
    if request.node.get_closest_marker("framework"):
        yield
        return
    for seen in imported.iterdir():
        seen.unlink()
    yield
    names = {seen.name for seen in imported.iterdir()} | watch.FRAMEWORKS & set(sys.modules)
    assert not names, f"imports {sorted(names)} and is not marked with `framework`"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of missing frameworks and deleted extensions; begin with what takes longest.

    Last, it would leave a processor idle: files are run whole, by one process of tests.
    """
    for item in items:
        for mark in item.iter_markers("framework"):
            missing = [name for name in mark.args if not real.is_there(name)]
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"{missing[0]} is not installed"))
        for mark in item.iter_markers("extension"):
            if not (Path(extensions.__file__).parent / mark.args[0]).is_dir():
                item.add_marker(pytest.mark.skip(reason=f"without the extension {mark.args[0]}"))
        if "forked" in getattr(item, "fixturenames", ()):
            item.add_marker("sessions")
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    names = ("framework", "sessions")
    turns = (turn for turn, name in enumerate(names) if item.get_closest_marker(name))
    return next(turns, len(names))
