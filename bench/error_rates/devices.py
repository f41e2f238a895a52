"""Simulated devices, many at once: they draw log times of launches, with the requested noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array

# Selects the ten largest payloads of each of two frameworks.
LARGE = np.arange(42) % 21 >= 11
_SLOW_MODE_SHARE = 0.3
_SMALL, _MEDIUM = 64 * 1024, 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """The noise of a simulated device, and how many cases it has.

    `session`, `launch` and `shared` are standard deviations of log time: of a case between
    sessions, between the launches of a session, and of the part that all cases share.

    `freedom` makes the noise t-distributed with these degrees of freedom and the same standard
    deviation; 0 makes it normal. `neighbours` is the correlation between neighbouring payloads.
    `by_case` is the standard deviation of the log of each case's noise, and `launches_by_case` that
    of the noise of its launches alone. One case of each device takes `slow_mode` times as long in
    30 % of its launches. With `steps` the noise is 3 % below 64K, 1 % up to 4M and 0.2 % above.

    Times of payloads up to 64K are multiples of `tick_s`, if it is not 0. `case_memory` and
    `shared_memory` are the correlations between successive sessions, of each case's noise and of
    the shared noise. A device has `frameworks` frameworks, with `families` families of `sizes`
    payloads.
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
    case_memory: float = 0.0
    shared_memory: float = 0.0
    frameworks: int = 2
    families: int = 1
    sizes: int = 21


# Returns the loss of a session in log time, by device and case. The accepted session is number 0.
Loss = Callable[[int, "Devices"], Any]


def loss_in_all_cases(size: float, first: int, last: int = 999) -> Loss:
    """Return a loss of all cases by the fraction `size`, from session `first` to session `last`."""
    return lambda session, devices: np.log1p(size) if first <= session <= last else 0.0


def loss_in_one_case(size: float, first: int, last: int = 999, every: int = 1) -> Loss:
    """Return a loss of each device's `chosen` case by the fraction `size`.

    It is in every `every`-th session from `first` to `last`.
    """
    return lambda session, devices: (
        np.log1p(size) * devices.chosen
        if first <= session <= last and session % every == 0
        else 0.0
    )


def loss_in_large_payloads(size: float, first: int) -> Loss:
    """Return a loss by the fraction `size` of the ten largest payloads, from session `first` on."""
    return lambda session, devices: np.log1p(size) * (session >= first) * LARGE[None]


class Devices:
    """Simulated devices, each with the same cases.

    Cases are sorted by framework, then by family, then by payload. The time of a case is 12 us plus
    payload / 45 GB/s, times a random factor between 0.9 and 1.1. `chosen` selects the case of each
    device that gets losses, and `odd` is the index of the case with a slow mode.
    """

    def __init__(self, noise: Noise, count: int, seed: tuple[int, ...]) -> None:
        self.noise, self.count = noise, count
        self.random = random = np.random.default_rng(seed)
        per = noise.families * noise.sizes
        self.cases = cases = noise.frameworks * per
        self.frameworks = [slice(i * per, (i + 1) * per) for i in range(noise.frameworks)]
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
        # On each device, one case has the slow mode and another case gets the losses.
        self.odd = random.integers(0, cases, count)
        self.chosen: Array = np.arange(cases)[None] == ((self.odd + 5) % cases)[:, None]
        self._case_noise = self._draw_standardized((count, cases))
        self._shared = random.standard_normal(count)

    @property
    def floor(self) -> Array:
        """The smallest loss that the clock can show, in log time; 0 without ticks."""
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
        """Draw the log times of the next session, by device, case and launch.

        Args:
            launches: The number of launches.
            loss: The loss of the session, in log time by device and case.
            times: The factor that multiplies the noise of cases between sessions.
            launch_times: The factor that multiplies the noise between launches. If None, it is
                `times`.

        """
        noise, random = self.noise, self.random
        fresh, memory = random.standard_normal(self.count), noise.shared_memory
        self._shared = memory * self._shared + np.sqrt(1 - memory**2) * fresh
        noises = self._draw_standardized((self.count, self.cases))
        for case in range(1, self.cases) if noise.neighbours else ():
            if case % noise.sizes:
                noises[:, case] *= np.sqrt(1 - noise.neighbours**2)
                noises[:, case] += noise.neighbours * noises[:, case - 1]
        fresh_share = np.sqrt(1 - noise.case_memory**2)
        self._case_noise = noise.case_memory * self._case_noise + fresh_share * noises
        middle = self.level + noise.shared * self._shared[:, None] + loss
        middle = middle + times * noise.session * self.scale * self._case_noise
        launch_noise = self._draw_standardized((self.count, self.cases, launches))
        launch_noise *= (times if launch_times is None else launch_times) * noise.launch
        drawn: Array = middle[..., None] + self.launch_scale[..., None] * launch_noise
        if noise.slow_mode != 1:
            slow = random.random((self.count, launches)) < _SLOW_MODE_SHARE
            drawn[np.arange(self.count), self.odd] += np.log(noise.slow_mode) * slow
        if noise.tick_s:
            small = self.payloads <= _SMALL
            ticks = np.maximum(np.round(np.exp(drawn[:, small]) / noise.tick_s), 1)
            drawn[:, small] = np.log(ticks * noise.tick_s)
        return drawn

    def _draw_standardized(self, shape: tuple[int, ...]) -> Array:
        """Draw random values with a standard deviation of 1."""
        values, freedom = self.random.standard_normal(shape), self.noise.freedom
        if freedom:
            chi = self.random.chisquare(freedom, shape) / freedom
            values = values / np.sqrt(chi) * np.sqrt((freedom - 2) / freedom)
        return values
