"""A year of nights with planted changes, as files of `--history`; no test lives here.

    python -m tests.unit.history.year DIR [NIGHTS]

Noise is that of a quiet device (docs/quiet.md): 0.5 % from launch to launch and from night to
night, and 0.3 % that all cases of a night share; one night in fifty is 2 % slower. Versions change
now and then without effect. The same in every run.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from busbw.history.files import HistoryLine, append_lines
from busbw.model.case import Case
from busbw.model.field_types import moment_text
from busbw.model.machine import EnvironmentKey, Protocol
from busbw.model.words import KIB, MIB, DeviceClass, FailureKind, Outcome, SessionOutcome

KEY = EnvironmentKey(device_kind="TPU v5 lite", ranks=4)
FOLDER = "tpu-v5-lite/4r"
NIGHTS = 365
BEGIN = datetime(2025, 12, 1, 3, tzinfo=UTC)
STRATEGIES = {"jax": "psum", "tensorflow": "tpu"}
LAUNCHES = 3

CASES = tuple(
    Case(
        framework=name,
        payload_bytes=KIB << power,
        strategy=strategy,
        dtype="float32",
        ranks=4,
        mesh="",
        protocol=Protocol.parse("device/chain8"),
    )
    for name, strategy in STRATEGIES.items()
    for power in range(21)
)

# What changes from which night on, and what all of it does to the cases named.
LIBTPU, TENSORFLOW, MEMORY, FASTER = 93, 180, 250, 300
_VERSIONS: Mapping[str, tuple[tuple[int, Mapping[str, str]], ...]] = {
    "jax": (
        (0, {"python": "3.12.8", "numpy": "2.4.1", "jax": "0.9.0", "libtpu": "0.0.34"}),
        (41, {"jax": "0.9.1"}),
        (LIBTPU, {"libtpu": "0.0.35"}),
        (139, {"numpy": "2.4.3", "jax": "0.10.0"}),
        (212, {"jax": "0.10.1"}),
        (MEMORY, {"libtpu": "0.0.40"}),
        (331, {"jax": "0.10.2", "libtpu": "0.0.41"}),
    ),
    "tensorflow": (
        (0, {"python": "3.12.8", "numpy": "2.4.1", "tensorflow": "2.19.1", "libtpu": "0.0.30"}),
        (139, {"numpy": "2.4.3"}),
        (TENSORFLOW, {"tensorflow": "2.20.0"}),
        (FASTER, {"libtpu": "0.0.31"}),
    ),
}
_HOSTS = ((0, "tpu-vm-7"), (160, "tpu-vm-9"))
_MISSED = {*range(60, 64), 121, 205, 206, 288}
_CRASHED = {77: MIB, 240: 64 * MIB}
# How many nights a change is reported before somebody accepts it.
_UNTIL_ACCEPTED = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Planted:
    """A change of `ratio` in time from a night on, or the end of a case's memory without one."""

    night: int
    framework: str
    payloads: range
    ratio: float | None

    def is_of(self, case: Case) -> bool:
        """Return whether the case has the change."""
        return case.framework == self.framework and case.payload_bytes in self.payloads


PLANTED = (
    Planted(night=LIBTPU, framework="jax", payloads=range(64 * KIB + 1), ratio=1.08),
    Planted(night=TENSORFLOW, framework="tensorflow", payloads=range(MIB, 1 << 31), ratio=1.05),
    Planted(night=MEMORY, framework="jax", payloads=range(1 << 30, 1 << 31), ratio=None),
    Planted(night=FASTER, framework="tensorflow", payloads=range(256 * KIB, MIB), ratio=0.88),
)


def write(root: Path, nights: int = NIGHTS) -> None:
    """Append the first `nights` to the history `root`."""
    for _, lines in itertools.groupby(year(nights), key=lambda line: line.began.year):
        append_lines(root, KEY, list(lines))


def year(nights: int = NIGHTS) -> Iterator[HistoryLine]:
    """Yield the lines of the first `nights`, in order."""
    chance = random.Random("a year")
    for night in range(nights):
        lines = list(_night(night, chance))
        if night not in _MISSED:
            yield from lines


def _night(night: int, chance: random.Random) -> Iterator[HistoryLine]:
    moment = moment_text(BEGIN + timedelta(days=night, minutes=chance.randrange(40)))
    session = f"{chance.getrandbits(64):016x}"
    off = math.log(1.02) if chance.random() < 0.02 else 0.0
    shared = {name: chance.gauss(off, 0.003) for name in STRATEGIES}
    reported = _reported(night)
    for case in CASES:
        level = _log_s(case, night)
        around = (0.0 if level is None else level) + shared[case.framework] + chance.gauss(0, 0.005)
        times_us = tuple(1e6 * math.exp(chance.gauss(around, 0.005)) for _ in range(LAUNCHES))
        yield HistoryLine(
            session=session,
            moment=moment,
            device=DeviceClass.TPU,
            case=case,
            session_outcome=SessionOutcome.SLOWER if reported > 5 else SessionOutcome.PASS,
            baseline_date=f"{BEGIN:%Y-%m-%d}",
            surroundings={"LIBTPU_INIT_ARGS": "--xla_tpu_scoped_vmem_limit_kib=65536"},
            host=[name for since, name in _HOSTS if night >= since][-1],
            commit=f"{night:012x}",
            worker="14726cac00bb8e20",
            **_measured(case, night, () if level is None else times_us),
        )


def _measured(case: Case, night: int, times_us: tuple[float, ...]) -> dict[str, Any]:
    """Return the fields of a line that depend on how the case ended."""
    if not times_us:
        failure = FailureKind.OUT_OF_MEMORY
        return {"outcome": Outcome.OUT_OF_MEMORY, "failure": failure}
    if _CRASHED.get(night) == case.payload_bytes:
        failure = FailureKind.CRASHED
        times_us = times_us[:1] if case.framework == "jax" else ()
        return {"outcome": Outcome.FAILED, "failure": failure, "times_us": times_us}
    fresh = [planted for planted in PLANTED if planted.is_of(case) and _is_fresh(planted, night)]
    outcome = Outcome.PASS
    if fresh:
        slower = fresh[0].ratio is not None and fresh[0].ratio > 1
        outcome = Outcome.REGRESSED if slower else Outcome.IMPROVED
    return {
        "outcome": outcome,
        "times_us": tuple(float(f"{time_us:.6g}") for time_us in times_us),
        "versions": _versions(case.framework, night),
    }


def _is_fresh(planted: Planted, night: int) -> bool:
    return planted.night <= night < planted.night + _UNTIL_ACCEPTED


def _reported(night: int) -> int:
    """Count the cases that are slower than what is accepted."""
    fresh = [
        planted
        for planted in PLANTED
        if _is_fresh(planted, night) and planted.ratio and planted.ratio > 1
    ]
    return sum(planted.is_of(case) for planted in fresh for case in CASES)


def _log_s(case: Case, night: int) -> float | None:
    """Return the log of the true time (20 us, 80 GB/s), None once memory runs out."""
    log_s = math.log(20e-6 + case.payload_bytes / 80e9)
    if case.framework == "tensorflow":
        log_s += math.log(1.15)
    for planted in PLANTED:
        if planted.is_of(case) and night >= planted.night:
            if planted.ratio is None:
                return None
            log_s += math.log(planted.ratio)
    return log_s


def _versions(framework: str, night: int) -> dict[str, str]:
    changed: dict[str, str] = {}
    for since, versions in _VERSIONS[framework]:
        changed |= versions if night >= since else {}
    return changed


if __name__ == "__main__":
    write(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
