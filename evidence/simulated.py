"""Simulated devices: sessions with noise of a stated kind, judged one after the other by the rule.

Only the noise is simulated: what is slower, what is measured again and what counts in a level is
decided by `busbw.judge`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from busbw.judge import usual
from busbw.judge.policy import Policy
from busbw.model.case import Case
from busbw.model.machine import Protocol
from busbw.model.words import KIB
from busbw.workloads.collective import Collective

from .night import LAUNCHES, Night, night, past


class _Simulated(Case):
    """Equal to itself alone, which is found faster than an equal one."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__


FRAMEWORKS = ("jax", "tensorflow")


def case(payload_bytes: int, framework: str = "jax") -> Case:
    return _Simulated(
        framework=framework,
        payload_bytes=payload_bytes,
        workload=Collective(),
        strategy="psum",
        dtype="float32",
        ranks=4,
        mesh="",
        protocol=Protocol.parse("device/chain8"),
    )


def grid(frameworks: int = 2, sizes: int = 21) -> tuple[Case, ...]:
    return tuple(
        case(KIB << power, name) for name in FRAMEWORKS[:frameworks] for power in range(sizes)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Deviations of log time: of a session, of a launch in it, and of what all cases share.

    `to` is what both fall to at the largest size; `freedom` that of a t-distribution, scaled to
    the same deviation; `alike` the correlation of sizes next to each other; `differ` the deviation
    of the logarithm of a case's own noise. One case, drawn for each device, has a slow mode that
    takes `slow` times as long, in 30 % of its launches. All cases get slower by `drift` from one
    session to the next. `stalls`: launches are slower than the session by an exponential time, and
    never faster. In the share `spells` of its sessions a case takes 10 % longer. What all share
    `wanders`: so much of it is that of the session before.
    """

    session: float = 0.005
    launch: float = 0.005
    shared: float = 0.003
    to: float | None = None
    freedom: int | None = None
    alike: float = 0.0
    differ: float = 0.0
    slow: float = 1.0
    drift: float = 0.0
    stalls: bool = False
    spells: float = 0.0
    wanders: float = 0.0


_SLOW_SHARE = 0.3

# By case, how much slower it is than it was, in log time.
Loss = Callable[[Case], float]


def _none(case: Case) -> float:
    return 0.0


class Device:
    """Its sessions one after the other; the first is accepted."""

    def __init__(self, noise: Noise, policy: Policy, cases: Sequence[Case], seed: str) -> None:
        self.noise, self.policy, self.cases = noise, policy, cases
        self.random = random.Random(seed)
        self.odd = self.random.choice(cases)
        self._own = {
            case: math.exp(self.random.gauss(0.0, noise.differ)) * self._falling(case)
            for case in cases
        }
        self.sessions = 0
        self._common = self.random.gauss(0.0, 1.0) if noise.wanders else 0.0
        self.past: list[usual.Night] = [past(self._draw(LAUNCHES))]
        self._known: usual.Past | None = None

    def nights(self, count: int, loss: Loss = _none) -> list[Night]:
        found = []
        for _ in range(count):
            found.append(self.night(loss))
            self.past.append(found[-1].past)
            self._known = None
        return found

    def night(self, loss: Loss = _none, *, times: float = 1.0, always_slow: bool = False) -> Night:
        """One more, which no later night knows of, with `times` as much noise."""
        drawn = self._draw(LAUNCHES + 6, loss, times=times, always_slow=always_slow)
        self._known = self._known or usual.learn(self.past, self.cases, self.policy.rule)
        return night(self._known, drawn, self.policy)

    def _falling(self, case: Case) -> float:
        if self.noise.to is None:
            return 1.0
        sizes = sorted({one.payload_bytes for one in self.cases})
        share = sizes.index(case.payload_bytes) / (len(sizes) - 1)
        return float((self.noise.to / self.noise.session) ** share)

    def _draw(
        self, launches: int, loss: Loss = _none, *, times: float = 1.0, always_slow: bool = False
    ) -> dict[Case, tuple[float, ...]]:
        """The launches of one session in seconds: 20 us and 80 GB/s, and the noise."""
        noise, gauss = self.noise, self.random.gauss
        drawn = math.sqrt(1 - noise.wanders**2) * gauss(0.0, 1.0)
        self._common = noise.wanders * self._common + drawn
        shared = noise.shared * self._common + noise.drift * self.sessions
        self.sessions += 1
        found, own = {}, 0.0
        for case in self.cases:
            fresh = self._standard()
            new = case.payload_bytes == self.cases[0].payload_bytes or not noise.alike
            own = fresh if new else noise.alike * own + math.sqrt(1 - noise.alike**2) * fresh
            level = math.log(20e-6 + case.payload_bytes / 80e9) + shared + loss(case)
            level += times * noise.session * self._own[case] * own
            level += math.log(1.1) if noise.spells and self.random.random() < noise.spells else 0.0
            deviation = times * noise.launch * self._own[case]
            found[case] = tuple(
                math.exp(level + deviation * self._launch() + self._mode(case, always_slow))
                for _ in range(launches)
            )
        return found

    def _mode(self, case: Case, always_slow: bool) -> float:
        if self.noise.slow == 1.0 or case is not self.odd:
            return 0.0
        slow = always_slow or self.random.random() < _SLOW_SHARE
        return math.log(self.noise.slow) if slow else 0.0

    def _launch(self) -> float:
        return self.random.expovariate(1.0) if self.noise.stalls else self._standard()

    def _standard(self) -> float:
        """Of deviation 1."""
        freedom = self.noise.freedom
        value = self.random.gauss(0.0, 1.0)
        if freedom is None:
            return value
        squares = 2 * self.random.gammavariate(freedom / 2, 1.0)
        return value / math.sqrt(squares / freedom) * math.sqrt((freedom - 2) / freedom)
