"""A quiet device, simulated: nights of 42 cases against one accepted session.

Launches, sessions and what all cases share have normal noise of a given size; `night` has the real
judge judge them.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from busbw import judge
from busbw.judge import Known
from busbw.model import (
    KIB,
    Answer,
    Baseline,
    BaselineSession,
    Case,
    Device,
    EarlierSession,
    Protocol,
    moment_text,
)
from busbw.workloads import Collective

from .night import LAUNCHES, Night, Times, night, session

FRAMEWORKS = ("jax", "tensorflow")
POLICY = judge.POLICIES[Device.TPU]
BEGIN = datetime(2026, 1, 1, 3, tzinfo=timezone.utc)

CASES = tuple(
    Case(
        framework=name,
        payload_bytes=KIB << power,
        workload=Collective(),
        strategy="psum",
        dtype="float32",
        ranks=4,
        mesh="",
        protocol=Protocol.parse("device/chain8"),
    )
    for name in FRAMEWORKS
    for power in range(21)
)
# 20 us of latency and 80 GB/s.
TRUTH = {case: math.log(20e-6 + case.payload_bytes / 80e9) for case in CASES}

# By night and case, by how much it is slower, in log time.
Loss = Callable[[int, Case], float]


def no_loss(night: int, case: Case) -> float:
    """Unchanged code."""
    return 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Standard deviations of log time: of a launch, of a session, of what all cases share.

    A session is odd with the probability `odd`: all of its cases take `off` more, a fraction.
    """

    launch: float
    session: float
    shared: float = 0.003
    odd: float = 0.0
    off: float = 0.02

    @property
    def text(self) -> str:
        """As the two that matter, such as ``0.5 % / 0.5 %``."""
        return f"{100 * self.launch:g} % / {100 * self.session:g} %"


class QuietDevice:
    """Its sessions night after night: the first is accepted, every later one is in the history."""

    def __init__(self, noise: Noise, seed: str) -> None:
        self._noise, self._chance = noise, random.Random(seed)
        self._night = 0
        self._truth: Mapping[Case, float] = {}
        self._history: dict[str, list[EarlierSession]] = {name: [] for name in FRAMEWORKS}
        accepted = [_baseline(case, times) for case, times in self._begun(no_loss).items()]
        self._baselines = {
            name: [one for one in accepted if one.case.framework == name] for name in FRAMEWORKS
        }

    def quiet_nights(self, count: int) -> None:
        """Nights that nobody judges: unchanged code is in the history as it was measured."""
        for _ in range(count):
            times_s = self._begun(no_loss)
            self._keep([session(self._began, times_s, name) for name in FRAMEWORKS])

    def night(self, loss: Loss = no_loss, *, since: int = 0) -> Night:
        """One session more, judged; `loss` counts nights from the night `since` on."""
        times_s = self._begun(lambda night, case: loss(night - since, case))
        known = {
            name: Known(baselines=self._baselines[name], history=self._history[name])
            for name in FRAMEWORKS
        }
        found = night(self._began, times_s, known, POLICY, self._launches)
        self._keep([found.session(self._began, name) for name in FRAMEWORKS])
        return found

    def machine(self, loss: Loss = no_loss, *, since: int = 0) -> Answer:
        """What a reference that takes the times of one night more says of the machine."""
        times_s = self._begun(lambda night, case: loss(night - since, case))
        tonight = {name: session(self._began, times_s, name) for name in FRAMEWORKS}
        groups = len(FRAMEWORKS)
        found = judge.all_answers(
            [
                judge.machine_answer(name, self._history[name], one, POLICY, groups)
                for name, one in tonight.items()
            ]
        )
        assert found is not None
        self._keep(list(tonight.values()))
        return found

    @property
    def _began(self) -> datetime:
        return BEGIN + timedelta(days=1 + self._night)

    def _begun(self, loss: Loss) -> Times:
        """The launches of a session."""
        noise, chance = self._noise, self._chance
        shared = chance.gauss(0, noise.shared)
        shared += math.log1p(noise.off) if chance.random() < noise.odd else 0.0
        self._truth = {
            case: level + shared + chance.gauss(0, noise.session) + loss(self._night, case)
            for case, level in TRUTH.items()
        }
        return {case: self._launches(case) for case in CASES}

    def _launches(self, case: Case) -> tuple[float, ...]:
        """As many as a session has at first, in seconds."""
        truth, noise = self._truth[case], self._noise.launch
        return tuple(math.exp(truth + self._chance.gauss(0, noise)) for _ in range(LAUNCHES))

    def _keep(self, sessions: Sequence[EarlierSession]) -> None:
        for name, one in zip(FRAMEWORKS, sessions):
            self._history[name].append(one)
        self._night += 1


def _baseline(case: Case, times_s: tuple[float, ...]) -> Baseline:
    date = BEGIN.date().isoformat()
    accepted = BaselineSession(
        date=date, at=moment_text(BEGIN), commit="", versions={}, times_s=times_s
    )
    return Baseline(
        case=case,
        oom=False,
        sessions=(accepted,),
        date=date,
        versions={},
        pinned_s=statistics.median(times_s),
        pinned_date=date,
    )
