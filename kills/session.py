"""One session in which something is hit: what it cost, what was said, and what was left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import aftermath
from .ground import CASES, LAUNCHES, PAYLOADS, Ground
from .hits import Hit, Target

# A session that is stopped is nobody's to kill: it is continued.
STOPPED_S = 3.0
_NEVER_S = 120.0
_LOOK_S = 0.01
_NEWS = re.compile(
    r"note: (?!appended to the history)|FAILED: |NO_VERDICT: |busbw: interrupted|FINE: |ERROR: "
    r"|!+ KeyboardInterrupt "
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Usual:
    """How long the parts of an undisturbed session take, in seconds."""

    session_s: float
    probe_s: float
    start_s: float
    measure_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What became of a session. `exit_code` None: it had to be killed; `at_s` None: no hit.

    `lost` launches of cases are missing, None where it wrote no results. `failures` are messages.
    """

    hit: Hit
    at_s: float | None
    exit_code: int | None
    seconds: float
    said: tuple[str, ...]
    lost: int | None
    failures: tuple[str, ...]
    processes: tuple[int, ...]
    folders: tuple[str, ...]
    left: tuple[str, ...]


def usual(ground: Ground) -> Usual:
    """From a session that nobody disturbs. Raises SystemExit if that is not fine."""
    ground.reset()
    with ground.begin() as session:
        _awaited(session, lambda: "test session starts" in ground.output)
        begun_s = time.monotonic()
        probe = _awaited(session, lambda: ground.probe(0) in ground.workers())
        gone = probe and _awaited(session, lambda: ground.probe(0) not in ground.workers())
        probe_s = (gone or 0.0) - (probe or 0.0)
        session.wait()
    results = ground.results
    wrong = aftermath.damage(ground, 1 + len(PAYLOADS))
    wrong += aftermath.history_damage(ground, ended=False)
    if session.returncode or results is None or wrong:
        raise SystemExit(f"an undisturbed session failed: {wrong}\n{ground.output}")
    return Usual(
        session_s=time.monotonic() - begun_s,
        probe_s=probe_s,
        start_s=results["spent_s"]["starting"] / LAUNCHES,
        measure_s=results["spent_s"]["measuring"] / LAUNCHES,
    )


def ran(ground: Ground, hit: Hit, usual: Usual) -> Ran:
    """A session that gets this hit."""
    ground.reset()
    begun_s = time.monotonic()
    with ground.begin() as session:
        at_s = None
        process = _reached(ground, session, hit, usual)
        if process is not None:
            at_s = time.monotonic() - begun_s
            _send(process, hit)
        exit_code = _over(session)
    seconds = time.monotonic() - begun_s
    processes = aftermath.processes(ground)
    folders = aftermath.folders(ground)
    results = ground.results
    left = [*aftermath.held(ground), *aftermath.damage(ground, 1 + _whole(results))]
    left += aftermath.history_damage(ground, ended=hit.target is Target.SESSION)
    left += [f"{name} in TMPDIR" for name in aftermath.folders_after_the_next(ground)]
    for one in processes:
        os.kill(one, signal.SIGKILL)
    return Ran(
        hit=hit,
        at_s=at_s,
        exit_code=exit_code,
        seconds=seconds,
        said=_said(ground.output),
        lost=None if results is None else CASES - _kept(results),
        failures=tuple(_failures(results)) if results else (),
        processes=tuple(processes),
        folders=tuple(folders),
        left=tuple(left),
    )


def _reached(
    ground: Ground, session: subprocess.Popen[bytes], hit: Hit, usual: Usual
) -> int | None:
    """The process to hit, at the time to hit it; None if it was over before."""
    if hit.target is Target.SESSION:
        # Before that it is no session yet, and Python's own to end.
        _awaited(session, lambda: "test session starts" in ground.output)
        time.sleep(hit.fraction * usual.session_s)
        return session.pid if session.poll() is None else None
    if hit.target is Target.AGENT:
        _awaited(session, lambda: ground.agent(hit.member) is not None)
        time.sleep(hit.fraction * usual.session_s)
        return ground.agent(hit.member)
    launch, probe = ground.launch(hit.launch, hit.member), ground.probe(hit.member)
    names = {Target.PROBE: probe, Target.LEAVING: ground.launch(2, hit.member)}
    awaited = names.get(hit.target, launch)
    if _awaited(session, lambda: awaited in ground.workers()) is None:
        return None
    whole = usual.start_s
    if hit.target is Target.PROBE:
        whole = usual.probe_s
    if hit.target is Target.MEASURING:
        _awaited(session, lambda: ground.measures(launch))
        whole = usual.measure_s
    time.sleep(hit.fraction * whole)
    return ground.workers().get(probe if hit.target is Target.PROBE else launch)


def _send(process: int, hit: Hit) -> None:
    """The process may have ended a moment ago: that is a moment as good as any."""
    try:
        os.kill(process, hit.signal)
        if hit.target is Target.SESSION and hit.signal is signal.SIGSTOP:
            time.sleep(STOPPED_S)
            os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        return


def _awaited(session: subprocess.Popen[bytes], true: Callable[[], bool]) -> float | None:
    """When it came true, by the monotonic clock; None if the session ended before."""
    while not true():
        if session.poll() is not None:
            return None
        time.sleep(_LOOK_S)
    return time.monotonic()


def _over(session: subprocess.Popen[bytes]) -> int | None:
    try:
        return session.wait(_NEVER_S)
    except subprocess.TimeoutExpired:
        session.kill()
        session.wait()
        return None


def _kept(results: dict[str, Any]) -> int:
    return sum(len(case["launches"]) for case in results["cases"])


def _whole(results: dict[str, Any] | None) -> int:
    """How many cases lost nothing: only those are stored."""
    if results is None:
        return len(PAYLOADS)
    return sum(not case["failures"] for case in results["cases"])


def _failures(results: dict[str, Any]) -> list[str]:
    return [failure["message"] for case in results["cases"] for failure in case["failures"]]


def _said(output: str) -> tuple[str, ...]:
    """The lines that say what went wrong or that nothing did, each once."""
    lines = [line.strip("! ") for line in output.splitlines() if _NEWS.match(line)]
    return tuple(dict.fromkeys(lines))
