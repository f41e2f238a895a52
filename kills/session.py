"""One session in which something is hit: what it cost, what was said, and what was left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from . import aftermath
from .faults import Fault
from .ground import CASES, LAUNCHES, PAYLOADS, Ground
from .hits import Hit
from .moments import Usual, awaited, has_begun
from .strikes import strike

# One that has not ended by then never would.
NEVER_S = 120.0
_NEWS = re.compile(
    r"note: (?!appended to the history)|FAILED: |NO_VERDICT: |busbw: interrupted|FINE: |ERROR: "
    r"|!+ KeyboardInterrupt "
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What became of a session. `exit_code` None: it had to be killed; `at_s` None: no hit.

    `lost` launches of cases are missing, None where it wrote no results. `failures` are messages.
    """

    hit: Hit | Fault
    at_s: float | None
    exit_code: int | None
    seconds: float
    said: tuple[str, ...]
    lost: int | None
    failures: tuple[str, ...]
    processes: tuple[int, ...]
    folders: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def has_given_up(self) -> bool:
        """Whether the session said that it has no verdict."""
        return any(line.startswith("NO_VERDICT: ") for line in self.said)


def usual(ground: Ground) -> Usual:
    """From a session that nobody disturbs. Raises SystemExit if that is not fine."""
    ground.reset()
    with ground.begin() as session:
        begun_s = awaited(session, lambda: has_begun(ground)) or 0.0
        probe_s = awaited(session, lambda: ground.probe(0) in ground.workers()) or 0.0
        gone_s = awaited(session, lambda: ground.probe(0) not in ground.workers()) or 0.0
        session.wait()
    results = ground.results
    wrong = aftermath.damage(ground, 1 + len(PAYLOADS))
    wrong += aftermath.history_damage(ground, ended=False)
    if session.returncode or results is None or wrong:
        raise SystemExit(f"an undisturbed session failed: {wrong}\n{ground.output}")
    return Usual(
        session_s=time.monotonic() - begun_s,
        join_s=probe_s - begun_s,
        probe_s=gone_s - probe_s,
        start_s=results["spent_s"]["starting"] / LAUNCHES,
        measure_s=results["spent_s"]["measuring"] / LAUNCHES,
    )


def ran(ground: Ground, hit: Hit | Fault, usual: Usual) -> Ran:
    """A session that gets this hit."""
    ground.reset()
    begun_s = time.monotonic()
    with ground.begin() as session:
        at_s = strike(ground, session, hit, usual)
        exit_code = _over(session)
    seconds = time.monotonic() - begun_s
    ground.place.resume()
    processes = aftermath.processes(ground)
    folders = aftermath.folders(ground)
    results = ground.results
    left = [*aftermath.held(ground), *aftermath.damage(ground, 1 + _whole(results))]
    left += aftermath.history_damage(ground, ended=hit.ends_session or results is None)
    left += [f"{name} in TMPDIR" for name in aftermath.folders_after_the_next(ground)]
    for one in processes:
        os.kill(one, signal.SIGKILL)
    ground.place.restore()
    return Ran(
        hit=hit,
        at_s=None if at_s is None else at_s - begun_s,
        exit_code=exit_code,
        seconds=seconds,
        said=_said(ground.output),
        lost=None if results is None else CASES - _kept(results),
        failures=tuple(_failures(results)) if results else (),
        processes=tuple(processes),
        folders=tuple(folders),
        left=tuple(left),
    )


def _over(session: subprocess.Popen[bytes]) -> int | None:
    try:
        return session.wait(NEVER_S)
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
