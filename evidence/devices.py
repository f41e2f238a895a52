"""Simulated devices, many at once: log times of launches, with noise of a stated kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_SLOW_MODE_SHARE = 0.3
_SMALL, _MEDIUM = 64 * 1024, 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Standard deviations of log time: of a session, of a launch, and of what all cases share.

    `freedom` is that of a t-distribution, scaled to the same deviation; `neighbours` the
    correlation of sizes next to each other; `by_case` the deviation of the logarithm of a case's
    own noise, `launches_by_case` of its launches alone. One case has a slow mode, `slow_mode` times
    as slow, in 30 % of its launches. `steps`: 3 % below 64K, 1 % to 4M, 0.2 % above. Times up to
    64K are multiples of `tick_s`. What is a case's own, and what all share, are autocorrelated by
    `own_memory` and `shared_memory` from session to session.
    """

    session: float = 0.005
    launch: float = 0.005
    shared: float = 0.003
    freedom: int = 0
    neighbours: float = 0.0
    by_case: float = 0.0
    launches_by_case: float = 0.0
    slow_mode: float = 1.0
    steps: bool = False
    tick_s: float = 0.0
    own_memory: float = 0.0
    shared_memory: float = 0.0
    frameworks: int = 2
    families: int = 1
    sizes: int = 21


class Devices:
    """`count` devices, each with the cases of all frameworks, families and sizes, in that order.

    A time is 12 us and 45 GB/s, a tenth more or less by case.
    """

    def __init__(self, noise: Noise, count: int, seed: tuple[int, ...]) -> None:
        self.noise, self.count = noise, count
        self.random = random = np.random.default_rng(seed)
        per = noise.families * noise.sizes
        self.cases = cases = noise.frameworks * per
        self.frameworks = [slice(at * per, (at + 1) * per) for at in range(noise.frameworks)]
        sizes = 1024.0 * 2.0 ** np.arange(noise.sizes)
        self.payloads = np.tile(sizes, noise.frameworks * noise.families)
        times_s = (12e-6 + self.payloads / 45e9) * random.uniform(0.9, 1.1, (count, cases))
        self.level: Array = np.log(times_s)
        self.scale = np.exp(noise.by_case * random.standard_normal((count, cases)))
        self.launch_scale = self.scale * np.exp(
            noise.launches_by_case * random.standard_normal((count, cases))
        )
        if noise.steps:
            deviation = np.where(
                self.payloads < _SMALL, 0.03, np.where(self.payloads <= _MEDIUM, 0.01, 0.002)
            )
            self.scale = self.scale * (deviation / 0.005)[None]
            self.launch_scale = self.launch_scale * (deviation / 0.005)[None]
        # The case with a slow mode, and the one that losses are put into.
        self.odd = random.integers(0, cases, count)
        self.chosen: Array = np.arange(cases)[None] == ((self.odd + 5) % cases)[:, None]
        self._own = self._standard((count, cases))
        self._shared = random.standard_normal(count)

    @property
    def floor(self) -> Array | None:
        """Return the smallest loss that a clock can tell, in log time; None without ticks."""
        if not self.noise.tick_s:
            return None
        floor = np.log1p(1.1 * self.noise.tick_s / np.exp(self.level))
        return np.where(self.payloads[None] <= _SMALL, floor, 0.0)

    def draw(
        self,
        launches: int = 6,
        loss: Array | float = 0.0,
        *,
        times: float = 1.0,
        launch_times: float | None = None,
    ) -> Array:
        """Return the log times of one more session, by device, case and launch.

        There is `times` as much noise, of launches `launch_times` as much.
        """
        noise, random = self.noise, self.random
        fresh, memory = random.standard_normal(self.count), noise.shared_memory
        self._shared = memory * self._shared + np.sqrt(1 - memory**2) * fresh
        own = self._standard((self.count, self.cases))
        for at in range(1, self.cases) if noise.neighbours else ():
            if at % noise.sizes:
                own[:, at] *= np.sqrt(1 - noise.neighbours**2)
                own[:, at] += noise.neighbours * own[:, at - 1]
        self._own = noise.own_memory * self._own + np.sqrt(1 - noise.own_memory**2) * own
        middle = self.level + noise.shared * self._shared[:, None] + loss
        middle = middle + times * noise.session * self.scale * self._own
        within = self._standard((self.count, self.cases, launches))
        within *= (times if launch_times is None else launch_times) * noise.launch
        found: Array = middle[..., None] + self.launch_scale[..., None] * within
        if noise.slow_mode != 1:
            slow = random.random((self.count, launches)) < _SLOW_MODE_SHARE
            found[np.arange(self.count), self.odd] += np.log(noise.slow_mode) * slow
        if noise.tick_s:
            small = self.payloads <= _SMALL
            ticks = np.maximum(np.round(np.exp(found[:, small]) / noise.tick_s), 1)
            found[:, small] = np.log(ticks * noise.tick_s)
        return found

    def _standard(self, shape: tuple[int, ...]) -> Array:
        """Return values of deviation 1."""
        values, freedom = self.random.standard_normal(shape), self.noise.freedom
        if freedom:
            chi = self.random.chisquare(freedom, shape) / freedom
            values = values / np.sqrt(chi) * np.sqrt((freedom - 2) / freedom)
        return values
