"""Two hosts, one and two, reached by ssh or as Dask workers; each is a machine of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.helpers import ssh
from tests.helpers.session_folder import Folder
from tests.helpers.workers import processes, wait_until

NAMES = ("one", "two")
# Of the second process: it hangs with 2K, and dies with 4K.
SCRIPT = {
    "processes": {
        "1": {
            "cases": [
                {"payload_bytes": 2048, "then": "hang"},
                {"payload_bytes": 4096, "then": "kill"},
            ]
        }
    }
}


@dataclass
class Hosts:
    """The options by which a session measures on both, and what runs there."""

    options: tuple[str, ...]
    temporary: Path
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    scheduler: subprocess.Popen[bytes] | None = None

    @property
    def left(self) -> list[object]:
        """The worker processes, and the folders of busbw."""
        return [*processes(self.temporary), *self.temporary.glob("busbw*")]

    def pid(self, name: str) -> int:
        """Return the process of busbw on a host that starts the worker processes."""
        if self.workers:
            return self.workers[name].pid
        (process,) = (
            int(path.name)
            for path in Path("/proc").glob("[0-9]*")
            if {f"BUSBW_FAKE_HOST={name}", f"TMPDIR={self.temporary}"}
            <= {*text_of(path / "environ").split("\0")}
            and "exec(eval(sys.stdin.readline()))" in text_of(path / "cmdline")
        )
        return process


def text_of(path: Path) -> str:
    """Return what a file holds; "" where it is gone."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.fixture(params=["ssh", pytest.param("dask", marks=pytest.mark.exhaustive)])
def hosts(request: pytest.FixtureRequest, folder: Folder) -> Iterator[Hosts]:
    folder.script(**SCRIPT)
    if request.param == "dask":
        pytest.importorskip("distributed")
        with cluster(folder) as made:
            yield made
        return
    programs = ssh.written(folder.path / "programs")
    folder.environment.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    yield Hosts((f"--hosts={','.join(NAMES)}", f"--host-python={ssh.python()}"), folder.temporary)


@contextmanager
def cluster(folder: Folder, names: Sequence[str] = NAMES, *options: str) -> Iterator[Hosts]:
    """Start a Dask scheduler and workers of these names; all are killed at the end."""
    file, temporary = folder.path / "scheduler.json", folder.path / "hosts"
    temporary.mkdir()

    def start(command: str, *more: str, machine: str = "") -> subprocess.Popen[bytes]:
        variables = {"TMPDIR": str(temporary)}
        variables |= {"BUSBW_MACHINE": f"{folder.path}/{machine}"} if machine else {}
        with (folder.path / f"{command}{machine}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{command}", *more],
                env={**os.environ, **variables},
                cwd=folder.path,
                stdout=log,
                stderr=log,
            )
        ends.callback(process.wait)
        ends.callback(process.kill)
        return process

    with ExitStack() as ends:
        protocol = [option for option in options if option.startswith("--protocol")]
        address = ("--host=127.0.0.1", "--port=0", f"--scheduler-file={file}", "--no-dashboard")
        scheduler = start("scheduler", *address, *protocol)
        assert wait_until(lambda: file.exists() and file.read_text().endswith("}"), 60)
        common = (f"--scheduler-file={file}", "--nthreads=1", "--no-nanny", "--memory-limit=0")
        workers = {
            name: start("worker", f"--name={name}", *common, *options, machine=name)
            for name in names
        }
        yield Hosts(
            (f"--cluster={file}", f"--processes={len(names)}"), temporary, workers, scheduler
        )
