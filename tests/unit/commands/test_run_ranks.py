"""`busbw run` as a launcher starts it: one command for every rank, here on the loopback address."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from busbw.model.variables import SECRET as VARIABLE
from tests.helpers.agents import HOST, SECRET
from tests.helpers.session_fixtures import folder, forked, written
from tests.helpers.session_folder import FAKE, NOT_NEEDED, WITHOUT_CACHE, Folder
from tests.helpers.sweep import sweep
from tests.helpers.workers import processes, state, wait_until

__all__ = ["folder", "forked", "written"]

pytestmark = pytest.mark.sessions

ROOT = Path(__file__).parents[3]
LONG_S = 60.0


class Ranks:
    """Commands that a test starts as ranks of one session, and what they write."""

    def __init__(self, folder: Folder, address: str) -> None:
        self.folder = folder
        self.address = address
        self._started: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, rank: int, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a rank that has this rank, count and address by options."""
        given = (f"--rank={rank}", "--agents=2", f"--session={self.address}")
        return self.launch(rank, *given, *options, **environment)

    def launch(self, rank: int, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a rank whose launcher says which one it is."""
        command = [sys.executable, "-m", "busbw", "run", *FAKE, *WITHOUT_CACHE, *NOT_NEEDED]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        with self._path(rank).open("w") as output:
            found = subprocess.Popen(
                [*command, *options],
                cwd=self.folder.path,
                env={**os.environ, VARIABLE: SECRET.decode(), "PYTHONPATH": path, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._started[rank] = found
        return found

    def codes(self, limit_s: float = LONG_S) -> list[int]:
        """The exit codes, by rank, once all have ended."""
        return [one.wait(limit_s) for _, one in sorted(self._started.items())]

    def text(self, rank: int) -> str:
        """What a rank has written."""
        return self._path(rank).read_text()

    def sentence(self, rank: int) -> str:
        """The one line of a command that pytest is not."""
        (line,) = self.text(rank).splitlines()
        return line

    def end(self) -> None:
        for one in self._started.values():
            one.kill()
            one.wait()

    def _path(self, rank: int) -> Path:
        return self.folder.path / f"rank{rank}.txt"


@pytest.fixture
def ranks(folder: Folder) -> Iterator[Ranks]:
    """Ranks of a session at a free port; no process, no port and no folder is left."""
    with socket.create_server((HOST, 0)) as free:
        address = f"{HOST}:{free.getsockname()[1]}"
    found = Ranks(folder, address)
    try:
        yield found
    finally:
        found.end()
    assert wait_until(lambda: not _naming(address), 20), _naming(address)
    assert wait_until(lambda: not processes(folder.temporary), 20)
    socket.create_server((HOST, int(address.rpartition(":")[2]))).close()


def _naming(address: str) -> list[str]:
    """The command lines of processes that name the address."""
    found = []
    for number in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{number}/cmdline").read_bytes()
            text = line.replace(b"\0", b" ").decode(errors="replace")
            found += [text] if address in text else []
    return found


def is_waiting(process: int) -> bool:
    """Whether a rank sleeps between two attempts to connect, and no longer imports."""
    for _ in range(10):
        if state(process) != "S":
            return False
        time.sleep(0.01)
    return True


def is_measuring(ranks: Ranks) -> bool:
    """Whether workers have come to the case that hangs."""
    logs = ranks.folder.temporary.rglob("*.log")
    return any("the script says hang" in path.read_text() for path in logs)


def test_two_ranks_measure_together(ranks: Ranks) -> None:
    results = ranks.folder.path / "results.json"
    ranks.start(1)
    ranks.start(0, f"--results={results}", "--ranks-per-process=2")
    assert ranks.codes() == [0, 0], ranks.text(0)
    assert f"listening at {ranks.address} for 2 agents, which the launcher has started" in (
        ranks.text(0)
    )
    assert "4 ranks, 1 host, 2 processes" in ranks.text(0)
    assert results.exists()
    assert ranks.text(1) == ""
    assert not ranks.folder.left_over()


@pytest.mark.exhaustive
def test_the_rank_that_begins_first_waits_for_the_other(ranks: Ranks) -> None:
    ranks.start(0)
    assert wait_until(lambda: "listening at" in ranks.text(0), LONG_S)
    ranks.start(1)
    assert ranks.codes() == [0, 0], ranks.text(0)


@pytest.mark.exhaustive
def test_more_processes_than_ranks_are_shared(ranks: Ranks) -> None:
    for rank in (1, 0):
        ranks.start(rank, "--processes=4")
    assert ranks.codes() == [0, 0], ranks.text(0)
    assert "4 ranks, 1 host, 4 processes" in ranks.text(0)


@pytest.mark.exhaustive
def test_one_rank_is_a_session_of_one_agent(ranks: Ranks) -> None:
    ranks.launch(0, "--rank=0", "--agents=1", f"--session={ranks.address}")
    assert ranks.codes() == [0], ranks.text(0)
    assert not ranks.folder.left_over()


@pytest.mark.exhaustive
def test_a_launcher_says_rank_and_count(ranks: Ranks) -> None:
    def task(rank: int) -> Mapping[str, str]:
        return {
            "SLURM_JOB_ID": ranks.address,
            "SLURM_STEP_ID": "0",
            "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_STEP_NODELIST": "localhost",
            "SLURM_PROCID": str(rank),
            "SLURMD_NODENAME": "localhost",
        }

    for rank in (1, 0):
        ranks.launch(rank, **task(rank))
    assert ranks.codes() == [0, 0], ranks.text(0)
    assert "2 ranks, 1 host, 2 processes" in ranks.text(0)


@pytest.mark.parametrize(
    ("option", "code", "why"),
    sweep(
        [
            ("--collect-only", 0, "1 test collected"),
            ("--no-such-option", 4, "unrecognized arguments: --no-such-option"),
            ("--clock=none", 4, "ERROR: busbw: --clock: 'none'"),
            ("-k=nothing", 5, "1 deselected"),
        ]
    ),
)
def test_a_session_that_never_measures_ends_the_others_well(
    ranks: Ranks, option: str, code: int, why: str
) -> None:
    other = ranks.start(1, option)
    assert wait_until(lambda: is_waiting(other.pid), LONG_S)
    ranks.start(0, option)
    assert ranks.codes() == [code, 0], ranks.text(0)
    assert why in ranks.text(0)
    assert ranks.sentence(1) == f"busbw run: the session at {ranks.address} is over"
    assert not ranks.folder.left_over()


@pytest.mark.exhaustive
def test_a_red_session_is_red_on_rank_0_alone(ranks: Ranks) -> None:
    ranks.start(1, "--require-baselines")
    ranks.start(0, "--require-baselines")
    assert ranks.codes() == [1, 0], ranks.text(0)
    assert ranks.text(1) == ""


@pytest.mark.exhaustive
def test_a_rank_with_another_secret_fails_and_so_does_the_session(ranks: Ranks) -> None:
    other = ranks.start(1, **{VARIABLE: "another secret of tests"})
    assert wait_until(lambda: is_waiting(other.pid), LONG_S)
    ranks.start(0, "--agents-wait=3")
    assert ranks.codes() == [4, 1]
    assert "does not have the same secret" in ranks.sentence(1)
    why = "rank 1 did not join within 3 s; 1 connection did not prove that they know the secret"
    assert why in ranks.text(0)


def test_a_rank_without_a_secret_fails_at_once(ranks: Ranks) -> None:
    for rank in (1, 0):
        ranks.start(rank, **{VARIABLE: ""})
    assert ranks.codes() == [4, 1]
    for rank in (1, 0):
        assert ranks.sentence(rank).startswith("busbw run: there is no secret; accepted is one in")


def test_a_rank_that_is_missing_is_named(ranks: Ranks) -> None:
    ranks.start(0, "--agents-wait=3")
    assert ranks.codes() == [4]
    assert "of 2 agents rank 1 did not join within 3 s; did you start" in ranks.text(0)
    assert not ranks.folder.left_over()


def test_a_rank_without_a_session_fails_after_the_wait(ranks: Ranks) -> None:
    ranks.start(1, "--agents-wait=0.5")
    assert ranks.codes() == [1]
    why = f"busbw run: no session at {ranks.address} within 0.5 s (Connection refused)"
    assert ranks.sentence(1) == why


@pytest.mark.exhaustive
def test_kill_9_of_rank_0_ends_the_other_red(ranks: Ranks) -> None:
    ranks.folder.script(cases=[{"then": "hang"}])
    ranks.start(1)
    first = ranks.start(0)
    assert wait_until(lambda: is_measuring(ranks), LONG_S)
    first.kill()
    assert ranks.codes(20) == [-signal.SIGKILL, 1]
    assert ranks.sentence(1).startswith("busbw run: the connection to the session is lost: ")
    # The next session removes the folders of what was killed.
    ranks.folder.script()
    ranks.folder.run(exit_code=0)


@pytest.mark.exhaustive
def test_ctrl_c_of_rank_0_ends_the_other_well(ranks: Ranks) -> None:
    ranks.folder.script(cases=[{"then": "hang"}])
    ranks.start(1)
    first = ranks.start(0)
    assert wait_until(lambda: is_measuring(ranks), LONG_S)
    first.send_signal(signal.SIGINT)
    assert ranks.codes(20) == [2, 0], ranks.text(0)


@pytest.mark.exhaustive
def test_a_rank_that_is_ended_ends_the_session_red(ranks: Ranks) -> None:
    ranks.folder.script(cases=[{"then": "hang"}])
    other = ranks.start(1)
    ranks.start(0)
    assert wait_until(lambda: is_measuring(ranks), LONG_S)
    other.terminate()
    assert ranks.codes() == [1, 1]
    assert "(rank 1) is gone" in ranks.text(0)


def test_a_port_in_use_is_a_usage_error(ranks: Ranks) -> None:
    with socket.create_server((HOST, int(ranks.address.rpartition(":")[2]))):
        ranks.start(0)
        assert ranks.codes() == [4]
    why = f"busbw run: {ranks.address}: Address already in use; accepted is --session=HOST:PORT"
    assert ranks.sentence(0).startswith(why)


@pytest.mark.parametrize(
    ("host", "why"),
    sweep(
        [
            ("0.0.0.0", "every network of this host could connect there"),
            ("[::]", "every network of this host could connect there"),
            ("192.0.2.77", "Cannot assign requested address"),
            ("no.such.host.invalid", "there is no host 'no.such.host.invalid'"),
        ],
        in_gate=2,
    ),
)
def test_what_is_no_address_of_rank_0_is_a_usage_error(ranks: Ranks, host: str, why: str) -> None:
    session = f"--session={host}:4000"
    ranks.launch(0, "--rank=0", "--agents=2", session, "--agents-wait=0.5")
    assert ranks.codes() == [4]
    assert why in ranks.sentence(0)
    assert "accepted is --session=HOST:PORT, an address of rank 0's host" in ranks.sentence(0)


def test_the_loopback_address_is_none_for_several_hosts(ranks: Ranks) -> None:
    hosts = {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost,other"}
    ranks.launch(0, **hosts)
    assert ranks.codes() == [4]
    assert "localhost is 127.0.0.1 on this host, which no other host reaches" in ranks.sentence(0)


def test_a_count_that_differs_is_a_usage_error_of_every_rank(ranks: Ranks) -> None:
    for rank in (0, 1):
        ranks.launch(
            rank,
            "--agents=3",
            OMPI_COMM_WORLD_RANK=str(rank),
            OMPI_COMM_WORLD_SIZE="2",
            OMPI_COMM_WORLD_LOCAL_SIZE="2",
        )
    assert ranks.codes() == [4, 4]
    for rank in (0, 1):
        assert "--agents=3: Open MPI started 2 processes; " in ranks.sentence(rank)


@pytest.mark.exhaustive
def test_help_has_its_own_options_before_those_of_pytest(ranks: Ranks) -> None:
    ranks.launch(0, "--help", TPU_WORKER_ID="0", TPU_WORKER_HOSTNAMES="a,b")
    assert ranks.codes() == [0]
    text = ranks.text(0)
    places = [text.index(word) for word in ("--rank=I", "--launcher=NAME", "--update-baselines")]
    assert places == sorted(places)


@pytest.mark.exhaustive
def test_no_process_of_rank_0_has_the_secret_or_the_socket(ranks: Ranks) -> None:
    """But for pytest itself."""
    ranks.folder.script(cases=[{"then": "hang"}])
    ranks.start(1)
    first = ranks.start(0)
    assert wait_until(lambda: is_measuring(ranks), LONG_S)
    found = [pid for pid in _descendants(first.pid) if pid != first.pid]
    assert len(found) >= 2
    inode = _listening_inode(first.pid, ranks.address)
    for pid in found:
        for name in ("cmdline", "environ"):
            content = Path(f"/proc/{pid}/{name}").read_bytes()
            assert SECRET not in content and b"BUSBW_LISTENING" not in content
        assert inode not in _sockets(pid)
    first.send_signal(signal.SIGINT)
    assert ranks.codes(20) == [2, 0], ranks.text(0)


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in _descendants(int(child)))]


def _sockets(pid: int) -> set[str]:
    found = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(os.readlink(path))
    return found


def _listening_inode(pid: int, address: str) -> str:
    """The socket of a process that listens at the port."""
    port = f"{int(address.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (inode,) = (row[9] for row in rows if row[1].endswith(f":{port}") and row[3] == "0A")
    found = f"socket:[{inode}]"
    assert found in _sockets(pid)
    return found
