"""Send a signal to a process of a session, and check that the session lost no more than it may."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from signal import SIGINT, SIGKILL, SIGSTOP, SIGTERM

from .sandbox import LAUNCHES, PAYLOADS, Sandbox

PROBE, STARTING, MEASURING, LEAVING = "probe", "starting", "measuring", "leaving"
MOMENTS = (PROBE, STARTING, MEASURING, LEAVING)
SIGNALS = (SIGKILL, SIGSTOP, SIGTERM, SIGINT)
# A session that takes longer counts as one that never ends.
_LONGEST_S = 120.0
# Outcomes with which a test passes, or only warns.
_NO_FAILURE = ("PASS", "IMPROVED", "NO_BASELINE", "NOISY")


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The options of a session, the members of its groups, and the possible targets and signals."""

    options: tuple[str, ...] = ()
    members: int = 1
    targets: tuple[str, ...] = ("worker", "session")
    signals: tuple[signal.Signals, ...] = SIGNALS


LAYOUTS = {
    "local": Layout(),
    "agents": Layout(
        options=("--ranks-per-process=2", "--processes=2", "--agents=local"),
        members=2,
        targets=("worker", "agent", "session"),
        # No process of a group can handle these.
        signals=(SIGKILL, SIGSTOP),
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A signal to `target`, once `fraction` of the phase `moment` is over.

    `launch` is 1 or 2. `member` is the rank of a worker or agent in a group, empty without groups.
    """

    target: str
    signal: signal.Signals
    moment: str
    launch: int = 1
    fraction: float = 0.5
    member: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """The end of a session that was hit.

    `exit_code` is None if the session never ended, and `struck` is False if it ended too early.
    `lost` launches of cases are missing, None where no results were written. `failures` are
    messages, and `green` are cases that lost a launch without a failure as their outcome. `traces`
    has processes, locks and damage, and `folders` those that only the next session removes.
    """

    hit: Hit
    struck: bool = True
    exit_code: int | None = 0
    lost: int | None = 0
    failures: tuple[str, ...] = ()
    green: tuple[str, ...] = ()
    output: str = ""
    folders: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """Return what was hit, and in which phase."""
        target = self.hit.target if self.struck else "nothing, as it had ended"
        return f"{target}, {self.hit.moment}" if target in ("worker", "agent") else target


def drawn(layout: Layout, count: int, seed: int) -> list[Hit]:
    """Draw `count` hits: every target, signal and moment as often as possible, in random order."""
    generator = random.Random(seed)
    every = list(itertools.product(layout.targets, layout.signals, MOMENTS))
    generator.shuffle(every)
    return [
        Hit(
            target=target,
            signal=number,
            moment=moment,
            # The first worker leaves while the second one starts.
            launch=1 if moment == LEAVING else generator.choice((1, 2)),
            fraction=generator.uniform(0.1, 0.9),
            member=str(generator.randrange(layout.members)) if layout.members > 1 else "",
        )
        for target, number, moment in itertools.islice(itertools.cycle(every), count)
    ]


def phase_lengths(sandbox: Sandbox) -> Mapping[str, float]:
    """Return the seconds of each phase of an undisturbed session. Raises SystemExit if it fails."""
    sandbox.prepare()
    sandbox.reset()
    with sandbox.begin() as session:
        session.wait()
    results = sandbox.results
    problems = sandbox.damage(stored=len(PAYLOADS), ended=False)
    if session.returncode or results is None or problems:
        raise SystemExit(f"an undisturbed session failed: {problems}\n{sandbox.output}")
    start_s = results["spent_s"]["starting"] / LAUNCHES
    measure_s = results["spent_s"]["measuring"] / LAUNCHES
    return dict.fromkeys(MOMENTS, start_s) | {MEASURING: measure_s}


def run(sandbox: Sandbox, hit: Hit, lengths_s: Mapping[str, float]) -> Result:
    """Run a session and hit it."""
    sandbox.reset()
    with sandbox.begin() as session:
        struck = _strike(sandbox, session, hit, lengths_s)
        exit_code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            exit_code = session.wait(_LONGEST_S)
        session.kill()
    traces = [f"process {process}" for process in sandbox.kill_processes()]
    results = sandbox.results
    cases = results["cases"] if results else []
    torn = [case for case in cases if len(case["launches"]) < LAUNCHES]
    measured = sum(len(case["launches"]) for case in cases)
    ended = results is None or (hit.target == "session" and hit.signal is not SIGSTOP)
    traces += sandbox.damage(stored=len(PAYLOADS) - len(torn), ended=ended)
    folders = tuple(sandbox.folders())
    return Result(
        hit=hit,
        struck=struck,
        exit_code=exit_code,
        lost=None if results is None else LAUNCHES * len(PAYLOADS) - measured,
        failures=tuple(failure["message"] for case in cases for failure in case["failures"]),
        green=tuple(
            f"{case['id']} is {case['outcome']}" for case in torn if case["outcome"] in _NO_FAILURE
        ),
        output=sandbox.output,
        folders=folders,
        traces=(*traces, *sandbox.traces()),
    )


def _strike(
    sandbox: Sandbox, session: subprocess.Popen[bytes], hit: Hit, lengths_s: Mapping[str, float]
) -> bool:
    """Send the signal at its moment; return whether the process still result."""
    while _worker(sandbox, hit, later=hit.moment == LEAVING) is None:
        if session.poll() is not None:
            return False
        time.sleep(0.01)
    start_s = lengths_s[STARTING] if hit.moment == MEASURING else 0.0
    time.sleep(start_s + hit.fraction * lengths_s[hit.moment])
    if hit.target == "session":
        process = session.pid if session.poll() is None else None
    elif hit.target == "agent":
        process = sandbox.process("agent", f"--rank={hit.member}")
    else:
        process = _worker(sandbox, hit)
    if process is None:
        return False
    # A process that ended a moment ago is as good a case as any.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, hit.signal)
        if hit.target == "session" and hit.signal is SIGSTOP:
            # No other process kills a session that is stopped.
            time.sleep(3.0)
            os.kill(process, signal.SIGCONT)
    return True


def _worker(sandbox: Sandbox, hit: Hit, later: bool = False) -> int | None:
    """Return the process of the launch that is hit, or of the launch after it."""
    launch = "probe" if hit.moment == PROBE else f"{hit.launch + later}.{sandbox.framework}"
    name = f"{launch}.worker{hit.member}" if hit.member else launch
    return sandbox.process(f"--launch={name}")


def surprises(result: Result) -> Iterator[str]:
    """Yield sentences on what the session lost or traces beyond what docs/hosts.md allows."""
    yield from (f"left: {trace}" for trace in result.traces)
    yield from (f"lost and {case}" for case in result.green)
    if result.exit_code is None:
        yield "the session never ended"
    elif result.struck and result.hit.target == "session":
        yield from _of_session(result, result.hit.signal)
    elif result.lost is None:
        yield f"no results, exit code {result.exit_code}"
    else:
        yield from _of_worker(result, result.lost)


def _of_session(result: Result, number: signal.Signals) -> Iterator[str]:
    """Expect nothing of a session that was ended, and everything of one that was continued."""
    expected = {SIGINT: 2, SIGSTOP: 0}.get(number, -number)
    if number is SIGINT and result.lost == 0:
        # The signal came when all was written, and only Python had to end.
        return
    if result.exit_code != expected:
        yield f"exit code {result.exit_code}, expected {expected}"
    if expected == 0 and result.lost != 0:
        yield f"{result.lost} lost"
    if expected >= 0 and result.folders:
        yield f"left: {', '.join(result.folders)}"


def _of_worker(result: Result, lost: int) -> Iterator[str]:
    """Expect to lose at most one launch of the case that was measured, as a failure."""
    if result.folders:
        yield f"left: {', '.join(result.folders)}"
    if result.exit_code != (1 if lost else 0):
        yield f"exit code {result.exit_code} with {lost} lost"
    if lost > 1:
        yield f"{lost} lost by one hit"
    if lost and not all("while measuring" in message for message in result.failures):
        yield "lost while nothing was measured"
    if lost and "\nFAILED: " not in result.output:
        yield "a launch is lost and the output has no FAILED"
