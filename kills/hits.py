"""What is hit in a session, how and when; what became of the session, and whether it may."""

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

from .ground import LAUNCHES, PAYLOADS, Ground

PROBE, STARTING, MEASURING, LEAVING = "probe", "starting", "measuring", "leaving"
MOMENTS = (PROBE, STARTING, MEASURING, LEAVING)
SIGNALS = (SIGKILL, SIGSTOP, SIGTERM, SIGINT)
# One that has not ended by then never would.
_NEVER_S = 120.0
# With these words a test would pass, or only warn.
_NO_FAILURE = ("PASS", "IMPROVED", "NO_BASELINE", "NOISY")


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The options of a session, whose groups have `members`, and what can be hit in it."""

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
        # Those that nothing in a group can do anything about.
        signals=(SIGKILL, SIGSTOP),
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A signal to `target`, once `fraction` of this part of a session is over.

    `launch` is 1 or 2, `member` a worker of a group or its agent; empty if each launch has one.
    """

    target: str
    signal: signal.Signals
    moment: str
    launch: int = 1
    fraction: float = 0.5
    member: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What became of a session. `exit_code` None: it never ended; not `struck`: it was too late.

    `lost` launches of cases are missing, None where it wrote no results; `failures` are messages,
    `green` the cases that lost a launch and have no failure for an outcome. `left` are processes,
    locks and damage; `folders` those that the next session removes.
    """

    hit: Hit
    struck: bool = True
    exit_code: int | None = 0
    lost: int | None = 0
    failures: tuple[str, ...] = ()
    green: tuple[str, ...] = ()
    said: str = ""
    folders: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What was hit, and in which of its parts."""
        target = self.hit.target if self.struck else "nothing, as it had ended"
        return f"{target}, {self.hit.moment}" if target in ("worker", "agent") else target


def drawn(layout: Layout, count: int, seed: int) -> list[Hit]:
    """`count` hits: each in every part of a session as often as it can be, in random order."""
    drawing = random.Random(seed)
    every = list(itertools.product(layout.targets, layout.signals, MOMENTS))
    drawing.shuffle(every)
    return [
        Hit(
            target=target,
            signal=sent,
            moment=moment,
            # The first worker leaves while the second one starts.
            launch=1 if moment == LEAVING else drawing.choice((1, 2)),
            fraction=drawing.uniform(0.1, 0.9),
            member=str(drawing.randrange(layout.members)) if layout.members > 1 else "",
        )
        for target, sent, moment in itertools.islice(itertools.cycle(every), count)
    ]


def undisturbed(ground: Ground) -> Mapping[str, float]:
    """Seconds of each part of a session that nobody disturbs. Raises SystemExit: it is not fine."""
    ground.reset()
    with ground.begin() as session:
        session.wait()
    results = ground.results
    wrong = ground.damage(stored=len(PAYLOADS), ended=False)
    if session.returncode or results is None or wrong:
        raise SystemExit(f"an undisturbed session failed: {wrong}\n{ground.output}")
    start_s = results["spent_s"]["starting"] / LAUNCHES
    measure_s = results["spent_s"]["measuring"] / LAUNCHES
    return dict.fromkeys(MOMENTS, start_s) | {MEASURING: measure_s}


def ran(ground: Ground, hit: Hit, usual: Mapping[str, float]) -> Ran:
    """A session that gets this hit."""
    ground.reset()
    with ground.begin() as session:
        struck = _strike(ground, session, hit, usual)
        exit_code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            exit_code = session.wait(_NEVER_S)
        session.kill()
    left = [f"process {one}" for one in ground.processes()] + ground.held()
    cases = None if ground.results is None else ground.results["cases"]
    parts = [one for one in cases or () if len(one["launches"]) < LAUNCHES]
    kept = sum(len(one["launches"]) for one in cases or ())
    ended = cases is None or (hit.target == "session" and hit.signal is not SIGSTOP)
    left += ground.damage(stored=len(PAYLOADS) - len(parts), ended=ended)
    folders = tuple(ground.folders())
    left += [f"{name} in TMPDIR" for name in ground.folders_after_the_next()]
    return Ran(
        hit=hit,
        struck=struck,
        exit_code=exit_code,
        lost=None if cases is None else LAUNCHES * len(PAYLOADS) - kept,
        failures=tuple(why["message"] for one in cases or () for why in one["failures"]),
        green=tuple(
            f"{one['id']} is {one['outcome']}" for one in parts if one["outcome"] in _NO_FAILURE
        ),
        said=ground.output,
        folders=folders,
        left=tuple(left),
    )


def _strike(
    ground: Ground, session: subprocess.Popen[bytes], hit: Hit, usual: Mapping[str, float]
) -> bool:
    """Whether there was still something to hit when its moment came."""
    while _worker(ground, hit, later=hit.moment == LEAVING) is None:
        if session.poll() is not None:
            return False
        time.sleep(0.01)
    time.sleep(hit.fraction * usual[hit.moment] + (hit.moment == MEASURING) * usual[STARTING])
    if hit.target == "session":
        process = session.pid if session.poll() is None else None
    elif hit.target == "agent":
        process = ground.process("agent", f"--rank={hit.member}")
    else:
        process = _worker(ground, hit)
    if process is None:
        return False
    # It may have ended a moment ago: that is a moment as good as any.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, hit.signal)
        if hit.target == "session" and hit.signal is SIGSTOP:
            # It is nobody's to kill: it is continued.
            time.sleep(3.0)
            os.kill(process, signal.SIGCONT)
    return True


def _worker(ground: Ground, hit: Hit, later: bool = False) -> int | None:
    """The process of the launch that is hit, or of the one after it."""
    launch = "probe" if hit.moment == PROBE else f"{hit.launch + later}.{ground.framework}"
    name = f"{launch}.worker{hit.member}" if hit.member else launch
    return ground.process(f"--launch={name}")


def surprises(ran: Ran) -> Iterator[str]:
    """What a hit may not cost: something left, lost without need, green or unsaid; in words."""
    yield from (f"left: {one}" for one in ran.left)
    yield from (f"lost and {one}" for one in ran.green)
    if ran.exit_code is None:
        yield "the session never ended"
    elif ran.struck and ran.hit.target == "session":
        yield from _of_session(ran, ran.hit.signal)
    elif ran.lost is None:
        yield f"no results, exit code {ran.exit_code}"
    else:
        yield from _of_worker(ran, ran.lost)


def _of_session(ran: Ran, sent: signal.Signals) -> Iterator[str]:
    """One that is ended keeps nothing; one that is continued loses nothing."""
    expected = {SIGINT: 2, SIGSTOP: 0}.get(sent, -sent)
    if sent is SIGINT and ran.lost == 0:
        # It came when all was done and written, and only Python had to end.
        return
    if ran.exit_code != expected:
        yield f"exit code {ran.exit_code}, expected {expected}"
    if expected == 0 and ran.lost != 0:
        yield f"{ran.lost} lost"
    if expected >= 0 and ran.folders:
        yield f"left: {', '.join(ran.folders)}"


def _of_worker(ran: Ran, lost: int) -> Iterator[str]:
    """At most the case that was being measured, in one launch, and that is said."""
    if ran.folders:
        yield f"left: {', '.join(ran.folders)}"
    if ran.exit_code != (1 if lost else 0):
        yield f"exit code {ran.exit_code} with {lost} lost"
    if lost > 1:
        yield f"{lost} lost by one hit"
    if lost and not all("while measuring" in message for message in ran.failures):
        yield "lost while nothing was measured"
    if lost and "\nFAILED: " not in ran.said:
        yield "lost and not said"
