"""Send a signal to a process of real sessions at random moments, and print what each session lost.

The exit code is 1 if a session lost more than docs/hosts.md allows. Let no other program run on the
machine meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any
from unittest import mock

from busbw import storage
from busbw.baselines.document import BaselineError, read_baselines
from busbw.driver.bundle import Bundle
from busbw.history.files import HistoryError, read_all_machines

from .processes import ROOT, BenchError, session_environment

LAUNCHES = 2
PAYLOADS = ("1K", "2K", "4K", "8K", "16K", "32K", "64K")
# The payload of the first session. All other sessions must keep its baseline and its history.
_FIRST_PAYLOAD = "128K"
# A session that takes longer counts as a session that does not end.
_SESSION_TIMEOUT_S = 120.0
# pytest with a shorter timeout: a worker that does not start fails after 20 seconds instead of
# three minutes.
_PYTEST_CODE = """
import sys, pytest
from busbw.driver import executor
executor.START_TIMEOUT_S = 20.0
sys.exit(pytest.main(sys.argv[1:]))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A signal to send during a session: to which process, and when.

    `target` is the process: ``worker`` or ``session``. The signal is sent `delay_s` seconds after
    the first worker of `launch` has started. `launch` is ``probe``, or the number of a round, such
    as ``1``.
    """

    target: str
    signal: signal.Signals
    launch: str = "1"
    delay_s: float = 0.0

    @property
    def may_end_session(self) -> bool:
        """Whether the signal may end the session, which may then lose all its measurements."""
        return self.target == "session" and self.signal is not SIGSTOP


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=60, help="number of sessions (default: 60)")
    parser.add_argument(
        "--seed", type=int, default=1, help="draws targets and moments (default: 1)"
    )
    parser.add_argument(
        "options",
        nargs="*",
        metavar="-- OPTION",
        help="options of the sessions, such as -- --processes=2",
    )
    parser.set_defaults(lines=lines)


def lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the table, one for each session.

    Raises SystemExit after the last line if a session lost more than expected.
    """
    # A process that a script starts in the background ignores SIGINT, and its sessions would
    # inherit this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unexpected = 0
    yield "| hit | signal | launch | after, s | exit code | lost launches | unexpected |"
    yield "|---|---|---|---:|---:|---:|---|"
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        first_folder = Path(name) / "first"
        launch_s = run_first_session(first_folder, options.options)
        for number, hit in enumerate(draw_hits(options.kills, options.seed, launch_s)):
            folder = Path(name) / f"hit-{number}"
            target, exit_code, lost, surprises = run_and_hit(
                first_folder, folder, options.options, hit
            )
            columns = (target, hit.signal.name, hit.launch, f"{hit.delay_s:.1f}", exit_code, lost)
            yield f"| {' | '.join(map(str, columns))} | {'; '.join(surprises)} |"
            if surprises:
                unexpected += 1
                print((folder / "output.txt").read_text(errors="replace"), file=sys.stderr)
    yield from ("", f"{unexpected} of {options.kills} are unexpected.")
    if unexpected:
        raise SystemExit(1)


def draw_hits(hit_count: int, seed: int, launch_s: float) -> Iterator[Hit]:
    """Yield `hit_count` hits in random order; targets, signals and launches are equally frequent.

    `launch_s` is the time of a launch in seconds, within which the moment of a hit is drawn.
    """
    generator = random.Random(seed)
    signals = (SIGKILL, SIGSTOP, SIGTERM, SIGINT)
    every = list(itertools.product(("worker", "session"), signals, ("probe", "1", "2")))
    generator.shuffle(every)
    for target, number, launch in itertools.islice(itertools.cycle(every), hit_count):
        delay_s = generator.uniform(0.0, launch_s)
        yield Hit(target=target, signal=number, launch=launch, delay_s=delay_s)


def run_first_session(folder: Path, options: Sequence[str]) -> float:
    """Run the first session in a new folder, and estimate how long a later launch will take.

    `options` are additional options of the session. Returns the time in seconds. Raises BenchError
    if the session fails.
    """
    (folder / "temporary").mkdir(parents=True)
    shutil.copytree(ROOT / "perf", folder / "perf")
    shutil.copy(ROOT / "conftest.py", folder)
    with _start_session(folder, *options, f"--payloads={_FIRST_PAYLOAD}") as session:
        if session.wait() != 0:
            raise BenchError(f"the first session failed:\n{(folder / 'output.txt').read_text()}")
    spent_s = json.loads((folder / "results.json").read_text())["spent_s"]
    (folder / "results.json").unlink()
    launch_s: float = (spent_s["starting"] + spent_s["measuring"] * len(PAYLOADS)) / LAUNCHES
    return launch_s


def _start_session(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start a session in `folder` that writes new baselines, the history and its results.

    `options` follow the other options, and so replace them.
    """
    command = [
        *(sys.executable, "-P", "-c", _PYTEST_CODE, "perf", "-p", "no:cacheprovider"),
        *("--frameworks=jax", f"--payloads={','.join(PAYLOADS)}", f"--launches={LAUNCHES}"),
        # The clock `dispatch` also measures on a busy machine.
        *("--clock=dispatch", "--case-timeout=10", "--update-baselines=new", "--color=no"),
        *(f"--history={folder / 'history'}", f"--results={folder / 'results.json'}"),
    ]
    variables = {
        "TMPDIR": str(folder / "temporary"),
        storage.MACHINE_VARIABLE: str(folder),
        "PYTHONUNBUFFERED": "1",
        "BUSBW_FAKE": json.dumps({"clocks": ["dispatch"]}),
    }
    with (folder / "output.txt").open("wb") as log:
        return subprocess.Popen(
            [*command, *options],
            cwd=folder,
            env=session_environment() | variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def run_and_hit(
    first_folder: Path, folder: Path, options: Sequence[str], hit: Hit
) -> tuple[str, int | None, int | None, Sequence[str]]:
    """Run a session in `folder`, a copy of the folder `first_folder`, and send the signal of `hit`.

    Returns:
        The process that received the signal; the exit code of the session, or None if the session
        did not end; the number of lost launches, or None without results; and sentences on
        unexpected losses.

    """
    shutil.copytree(first_folder, folder)
    with _start_session(folder, *options) as session:
        while session.poll() is None and not _worker_processes(folder, hit.launch):
            time.sleep(0.01)
        time.sleep(hit.delay_s)
        target = hit.target if _send_signal(folder, session, hit) else "nothing, as it had ended"
        exit_code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            exit_code = session.wait(_SESSION_TIMEOUT_S)
        session.kill()
    processes, results = _kill_remaining(folder), folder / "results.json"
    cases = json.loads(results.read_text())["cases"] if results.exists() else None
    incomplete_count = sum(len(case["launches"]) < LAUNCHES for case in cases or ())
    surprises = [
        *(f"left: process {process}" for process in processes),
        *(f"left: {trace}" for trace in _leftovers(folder, exit_code)),
        *find_damage(
            first_folder,
            folder,
            len(PAYLOADS) - incomplete_count,
            cases is None or hit.may_end_session,
        ),
        *find_surprises(hit, exit_code, cases),
    ]
    return target, exit_code, _lost_launch_count(cases), surprises


def _send_signal(folder: Path, session: subprocess.Popen[bytes], hit: Hit) -> bool:
    """Send the signal of `hit` to its process; return whether there was such a process."""
    running = [session.pid] if session.poll() is None else []
    processes = running if hit.target == "session" else _worker_processes(folder, hit.launch)
    if not processes:
        return False
    process = random.choice(processes)
    # The process may end before the signal is sent, which is also worth a test.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, hit.signal)
        if hit.target == "session" and hit.signal is SIGSTOP:
            # A stopped session does not continue by itself.
            time.sleep(3.0)
            os.kill(process, signal.SIGCONT)
    return True


def _session_processes(folder: Path) -> dict[int, str]:
    """Return the command lines of all processes of the session in `folder`, by process id."""
    processes = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_text(errors="replace")
            if f"{folder}/" in command + (path / "environ").read_text(errors="replace"):
                processes[int(path.name)] = command
    return processes


def _worker_processes(folder: Path, launch: str) -> Sequence[int]:
    """Return the ids of the session's worker processes whose launch has a name like `launch`."""
    commands = _session_processes(folder).items()
    return [process for process, command in commands if f"--launch={launch}" in command]


def _kill_remaining(folder: Path) -> Sequence[int]:
    """Wait a few seconds for the processes of a session to end, and kill the others.

    Returns the ids of the processes that were killed.
    """
    end_s = time.monotonic() + 5.0
    while (processes := list(_session_processes(folder))) and time.monotonic() < end_s:
        time.sleep(0.05)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return processes


def _leftovers(folder: Path, exit_code: int | None) -> list[str]:
    """Return texts on the temporary files and locks that a session has left behind.

    The folder of a killed session is not counted, because the next session removes it.
    """
    temporary = folder / "temporary"
    if exit_code is None or exit_code < 0:
        with mock.patch.object(tempfile, "tempdir", str(temporary)):
            Bundle().remove()
    traces = [f"{path.name} in TMPDIR" for path in temporary.iterdir()]
    try:
        with (
            mock.patch.dict(os.environ, {storage.MACHINE_VARIABLE: str(folder)}),
            storage.lock_machine(0),
        ):
            return traces
    except storage.LockedError as error:
        return [*traces, f"the machine's lock ({error})"]


def find_damage(
    first_folder: Path, folder: Path, added_count: int, is_ended_early: bool
) -> Iterator[str]:
    """Yield sentences on damage to the baselines and the history of a session in `folder`.

    Args:
        first_folder: The folder of the first session, whose entries must be kept.
        folder: The folder of the session.
        added_count: The number of baselines that the session should have added.
        is_ended_early: Whether the signal may have ended the session, which may then have added
            nothing.

    """
    try:
        before, after = _stored_entries(first_folder), _stored_entries(folder)
    except (BaselineError, HistoryError) as error:
        yield str(error)
        return
    for name, count in {"baselines": added_count, "history": len(PAYLOADS)}.items():
        if not all(line in after[name] for line in before[name]):
            yield f"{name}: entries are lost"
        added = len(after[name]) - len(before[name])
        if added != count and not (is_ended_early and added == 0):
            yield f"{name}: {added} new entries, expected {count}"


def _stored_entries(folder: Path) -> Mapping[str, Sequence[Any]]:
    """Return the stored baselines and the lines of the history in `folder`.

    Raises BaselineError or HistoryError for a file that cannot be read.
    """
    # Temporary files are read, too. Such a file cannot be read, or has the same entries again.
    files = (folder / "baselines").rglob("*.json*")
    return {
        "baselines": [baseline for path in files for baseline in read_baselines(path).baselines],
        "history": [
            line for lines in read_all_machines(folder / "history").values() for line in lines
        ],
    }


def find_surprises(
    hit: Hit, exit_code: int | None, cases: Sequence[Mapping[str, Any]] | None
) -> Iterator[str]:
    """Yield sentences on losses of a session that docs/hosts.md does not allow after `hit`.

    `exit_code` is None if the session did not end. `cases` are the cases in its results, None if it
    wrote no results.
    """
    lost = _lost_launch_count(cases)
    codes = {1 if lost else 0}
    if hit.may_end_session:
        # If nothing is lost, the signal came after all files were written.
        codes = {0, 2, -hit.signal} if lost == 0 else {2 if hit.signal is SIGINT else -hit.signal}
    if exit_code not in codes:
        yield f"exit code {exit_code}, expected {' or '.join(map(str, sorted(codes)))}"
    if lost is None and not hit.may_end_session:
        yield "no results"
    if lost is not None and lost > (0 if hit.target == "session" else 1):
        yield f"{lost} lost by one hit"
    for case in cases or ():
        text = case["failure"]["message"] if case["failed"] else case["outcome"]
        if len(case["launches"]) < LAUNCHES and "while measuring" not in text:
            yield f"lost: {case['id']}: {text}"


def _lost_launch_count(cases: Sequence[Mapping[str, Any]] | None) -> int | None:
    """Return how many launches of all cases are missing in the results; None without results."""
    return None if cases is None else sum(LAUNCHES - len(case["launches"]) for case in cases)
