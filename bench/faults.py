"""Send a signal to a process of real sessions at random moments, and print what that cost.

Exit code 1 if a session lost more than docs/hosts.md allows. Nothing else may run on the machine
meanwhile.
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
from busbw.baselines.document import BaselineError, read
from busbw.driver.bundle import Bundle
from busbw.history.files import HistoryError, read_all

from .processes import ROOT, BenchError, environment

LAUNCHES = 2
PAYLOADS = ("1K", "2K", "4K", "8K", "16K", "32K", "64K")
# The payload of the first session, whose baseline and history every other session must keep.
_STORED = "128K"
# A session that takes longer counts as a session that never ends.
_LONGEST_S = 120.0
# Workers that do not start fail after 20 seconds in place of three minutes.
_PYTEST = """
import sys, pytest
from busbw.driver import executor
executor.START_TIMEOUT_S = 20.0
sys.exit(pytest.main(sys.argv[1:]))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A signal to a worker or the session, so long after the first worker of a launch started.

    The `launch` is ``probe``, or the number of a launch that measures.
    """

    target: str
    signal: signal.Signals
    launch: str = "1"
    after_s: float = 0.0

    @property
    def may_end_session(self) -> bool:
        """Whether the session may end and lose all that it measured."""
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
    """Yield the table. Raises SystemExit if any session was not as expected."""
    # A background process of a script ignores SIGINT, and so would its sessions.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unexpected = 0
    yield "| hit | signal | launch | after, s | exit code | lost launches | unexpected |"
    yield "|---|---|---|---:|---:|---:|---|"
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        first = Path(name) / "first"
        launch_s = prepare(first, options.options)
        for number, hit in enumerate(draw(options.kills, options.seed, launch_s)):
            folder = Path(name) / f"hit-{number}"
            target, exit_code, lost, surprises = run(first, folder, options.options, hit)
            columns = (target, hit.signal.name, hit.launch, f"{hit.after_s:.1f}", exit_code, lost)
            yield f"| {' | '.join(map(str, columns))} | {'; '.join(surprises)} |"
            if surprises:
                unexpected += 1
                print((folder / "output.txt").read_text(errors="replace"), file=sys.stderr)
    yield from ("", f"{unexpected} of {options.kills} are unexpected.")
    if unexpected:
        raise SystemExit(1)


def draw(count: int, seed: int, launch_s: float) -> Iterator[Hit]:
    """Yield `count` hits: every target, signal and launch as often as possible, in random order."""
    generator = random.Random(seed)
    signals = (SIGKILL, SIGSTOP, SIGTERM, SIGINT)
    every = list(itertools.product(("worker", "session"), signals, ("probe", "1", "2")))
    generator.shuffle(every)
    for target, number, launch in itertools.islice(itertools.cycle(every), count):
        after_s = generator.uniform(0.0, launch_s)
        yield Hit(target=target, signal=number, launch=launch, after_s=after_s)


def prepare(folder: Path, options: Sequence[str]) -> float:
    """Run a first session in a new folder, and return how long a launch of others will take.

    Raises BenchError if the session fails.
    """
    (folder / "temporary").mkdir(parents=True)
    shutil.copytree(ROOT / "perf", folder / "perf")
    shutil.copy(ROOT / "conftest.py", folder)
    with _begin(folder, *options, f"--payloads={_STORED}") as session:
        if session.wait() != 0:
            raise BenchError(f"the first session failed:\n{(folder / 'output.txt').read_text()}")
    spent_s = json.loads((folder / "results.json").read_text())["spent_s"]
    (folder / "results.json").unlink()
    launch_s: float = (spent_s["starting"] + spent_s["measuring"] * len(PAYLOADS)) / LAUNCHES
    return launch_s


def _begin(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start a session that measures and stores; `options` come last."""
    command = [sys.executable, "-P", "-c", _PYTEST, "perf", "-p", "no:cacheprovider"]
    command += ["--frameworks=jax", f"--payloads={','.join(PAYLOADS)}"]
    # The clock of dispatches measures even where the machine is busy.
    command += [
        "--frameworks=jax",
        "--clock=dispatch",
        f"--launches={LAUNCHES}",
        "--case-timeout=10",
    ]
    command += ["--update-baselines=new", "--color=no"]
    command += [f"--history={folder / 'history'}", f"--results={folder / 'results.json'}"]
    variables = {
        "TMPDIR": str(folder / "temporary"),
        storage.MACHINE: str(folder),
        "PYTHONUNBUFFERED": "1",
        "BUSBW_FAKE": json.dumps({"clocks": ["dispatch"]}),
    }
    with (folder / "output.txt").open("wb") as log:
        return subprocess.Popen(
            [*command, *options],
            cwd=folder,
            env=environment() | variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def run(
    first: Path, folder: Path, options: Sequence[str], hit: Hit
) -> tuple[str, int | None, int | None, Sequence[str]]:
    """Run a session in a copy of the folder `first`, and hit it.

    Returns what was hit; the exit code of the session, None if it never ended; the number of
    launches that are lost, None without results; and what is unexpected.
    """
    shutil.copytree(first, folder)
    with _begin(folder, *options) as session:
        while session.poll() is None and not _workers(folder, hit.launch):
            time.sleep(0.01)
        time.sleep(hit.after_s)
        target = hit.target if _strike(folder, session, hit) else "nothing, as it had ended"
        exit_code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            exit_code = session.wait(_LONGEST_S)
        session.kill()
    processes, results = _kill_all(folder), folder / "results.json"
    cases = json.loads(results.read_text())["cases"] if results.exists() else None
    torn = sum(len(case["launches"]) < LAUNCHES for case in cases or ())
    surprises = [
        *(f"left: process {process}" for process in processes),
        *(f"left: {trace}" for trace in _traces(folder, exit_code)),
        *damage(first, folder, len(PAYLOADS) - torn, cases is None or hit.may_end_session),
        *surprises_of(hit, exit_code, cases),
    ]
    return target, exit_code, _lost(cases), surprises


def _strike(folder: Path, session: subprocess.Popen[bytes], hit: Hit) -> bool:
    """Send the signal; return whether the process still ran."""
    running = [session.pid] if session.poll() is None else []
    processes = running if hit.target == "session" else _workers(folder, hit.launch)
    if not processes:
        return False
    process = random.choice(processes)
    # A process that ended a moment ago is as good a case as any.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, hit.signal)
        if hit.target == "session" and hit.signal is SIGSTOP:
            # No other process kills a session that is stopped.
            time.sleep(3.0)
            os.kill(process, signal.SIGCONT)
    return True


def _processes(folder: Path) -> dict[int, str]:
    """Return the command of each process of the session."""
    processes = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_text(errors="replace")
            if f"{folder}/" in command + (path / "environ").read_text(errors="replace"):
                processes[int(path.name)] = command
    return processes


def _workers(folder: Path, launch: str) -> Sequence[int]:
    commands = _processes(folder).items()
    return [process for process, command in commands if f"--launch={launch}" in command]


def _kill_all(folder: Path) -> Sequence[int]:
    """Kill the processes of the session that still run some seconds later, and return them."""
    end_s = time.monotonic() + 5.0
    while (processes := list(_processes(folder))) and time.monotonic() < end_s:
        time.sleep(0.05)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return processes


def _traces(folder: Path, exit_code: int | None) -> list[str]:
    """Return what is left of temporary files and locks.

    A killed session leaves its folders to the next session.
    """
    temporary = folder / "temporary"
    if exit_code is None or exit_code < 0:
        with mock.patch.object(tempfile, "tempdir", str(temporary)):
            Bundle().remove()
    traces = [f"{path.name} in TMPDIR" for path in temporary.iterdir()]
    try:
        with mock.patch.dict(os.environ, {storage.MACHINE: str(folder)}), storage.machine_lock(0):
            return traces
    except storage.LockedError as error:
        return [*traces, f"the machine's lock ({error})"]


def damage(first: Path, folder: Path, stored: int, ended: bool) -> Iterator[str]:
    """Yield what is wrong with baselines and history, compared with those of `first`.

    A session stores `stored` baselines; a session that was `ended` may have stored nothing.
    """
    try:
        before, after = _entries(first), _entries(folder)
    except (BaselineError, HistoryError) as error:
        yield str(error)
        return
    for name, count in {"baselines": stored, "history": len(PAYLOADS)}.items():
        if not all(line in after[name] for line in before[name]):
            yield f"{name}: entries are lost"
        added = len(after[name]) - len(before[name])
        if added != count and not (ended and added == 0):
            yield f"{name}: {added} new entries, expected {count}"


def _entries(folder: Path) -> Mapping[str, Sequence[Any]]:
    """Return all that is stored. Raises BaselineError and HistoryError."""
    # A temporary file beside the baselines cannot be read, or has their entries once more.
    files = (folder / "baselines").rglob("*.json*")
    return {
        "baselines": [baseline for path in files for baseline in read(path).baselines],
        "history": [line for lines in read_all(folder / "history").values() for line in lines],
    }


def surprises_of(
    hit: Hit, exit_code: int | None, cases: Sequence[Mapping[str, Any]] | None
) -> Iterator[str]:
    """Yield sentences on what the session lost beyond what docs/hosts.md allows.

    `exit_code` is None if the session never ended, and `cases` if it wrote no results.
    """
    lost = _lost(cases)
    codes = {1 if lost else 0}
    if hit.may_end_session:
        # Where nothing is lost, the signal came when all was written, or even later.
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


def _lost(cases: Sequence[Mapping[str, Any]] | None) -> int | None:
    return None if cases is None else sum(LAUNCHES - len(case["launches"]) for case in cases)
