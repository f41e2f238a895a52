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
    """The noise of a simulated device, and the number of its cases.

    Times are multiplied by random factors. Fields whose names end in ``_deviation`` are standard
    deviations of the logarithms of these factors.

    Attributes:
        session_deviation: Differs between sessions, for each case by itself.
        launch_deviation: Differs between the launches of a session, for each case by itself.
        shared_deviation: Differs between sessions, and is the same for all cases.
        degrees_of_freedom: Of Student's t-distribution, scaled to the same standard deviation; 0
            for a normal distribution.
        neighbour_correlation: The correlation between neighbouring payloads.
        noise_spread_by_case: The standard deviation of the logarithm of each case's noise.
        launch_noise_spread_by_case: The same for the noise between launches alone.
        slow_mode_factor: A case of each device takes so many times as long in 30 % of its launches.
        has_payload_steps: Whether the noise is 3 % below 64K, 1 % up to 4M and 0.2 % above.
        tick_s: Times of payloads up to 64K are multiples of it; 0 for exact times.
        case_correlation: The correlation between successive sessions of a case's noise.
        shared_correlation: The correlation between successive sessions of the shared noise.
        framework_count: The number of frameworks of a device.
        family_count: The number of families of each framework.
        payload_count: The number of payloads of each family.

    """

    session_deviation: float = 0.005
    launch_deviation: float = 0.005
    shared_deviation: float = 0.003
    degrees_of_freedom: int = 0
    neighbour_correlation: float = 0.0
    noise_spread_by_case: float = 0.0
    launch_noise_spread_by_case: float = 0.0
    slow_mode_factor: float = 1.0
    has_payload_steps: bool = False
    tick_s: float = 0.0
    case_correlation: float = 0.0
    shared_correlation: float = 0.0
    framework_count: int = 2
    family_count: int = 1
    payload_count: int = 21


# Returns the loss of a session in log time, by device and case. The accepted session is number 0.
Loss = Callable[[int, "Devices"], Any]


def loss_in_all_cases(increase: float, first_session: int, last_session: int = 999) -> Loss:
    """Return a loss of all cases in the sessions `first_session` to `last_session`.

    `increase` is the fraction by which times increase.
    """
    return lambda session, devices: (
        np.log1p(increase) if first_session <= session <= last_session else 0.0
    )


def loss_in_one_case(
    increase: float, first_session: int, last_session: int = 999, period: int = 1
) -> Loss:
    """Return a loss of one case of each device, which `Devices.loss_cases` selects.

    The loss is in every `period`-th session from `first_session` to `last_session`. `increase` is
    the fraction by which times increase.
    """
    return lambda session, devices: (
        np.log1p(increase) * devices.loss_cases
        if first_session <= session <= last_session and session % period == 0
        else 0.0
    )


def loss_in_large_payloads(increase: float, first_session: int) -> Loss:
    """Return a loss of the ten largest payloads, from session `first_session` on.

    `increase` is the fraction by which times increase.
    """
    return lambda session, devices: np.log1p(increase) * (session >= first_session) * LARGE[None]


class Devices:
    """Simulated devices, each with the same cases.

    Cases are sorted by framework, then by family, then by payload. The time of a case is 12 us plus
    payload / 45 GB/s, times a random factor between 0.9 and 1.1. `loss_cases` selects the case of
    each device that gets losses. `slow_mode_cases` is the index of each device's case with a slow
    mode.
    """

    def __init__(self, noise: Noise, count: int, seed: tuple[int, ...]) -> None:
        self.noise, self.count = noise, count
        self.random = random = np.random.default_rng(seed)
        cases_per_framework = noise.family_count * noise.payload_count
        self.cases = cases = noise.framework_count * cases_per_framework
        self.frameworks = [
            slice(i * cases_per_framework, (i + 1) * cases_per_framework)
            for i in range(noise.framework_count)
        ]
        sizes = 1024.0 * 2.0 ** np.arange(noise.payload_count)
        self.payloads = np.tile(sizes, noise.framework_count * noise.family_count)
        times_s = (12e-6 + self.payloads / 45e9) * random.uniform(0.9, 1.1, (count, cases))
        self.level: Array = np.log(times_s)
        self.scale = np.exp(noise.noise_spread_by_case * random.standard_normal((count, cases)))
        self.launch_scale = self.scale * np.exp(
            noise.launch_noise_spread_by_case * random.standard_normal((count, cases))
        )
        if noise.has_payload_steps:
            deviation = np.where(
                self.payloads < _SMALL, 0.03, np.where(self.payloads <= _MEDIUM, 0.01, 0.002)
            )
            self.scale = self.scale * (deviation / 0.005)[None]
            self.launch_scale = self.launch_scale * (deviation / 0.005)[None]
        # On each device, one case has the slow mode and another case gets the losses.
        self.slow_mode_cases = random.integers(0, cases, count)
        self.loss_cases: Array = (
            np.arange(cases)[None] == ((self.slow_mode_cases + 5) % cases)[:, None]
        )
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
        noise_factor: float = 1.0,
        launch_noise_factor: float | None = None,
    ) -> Array:
        """Draw the log times of the next session, by device, case and launch.

        Args:
            launches: The number of launches.
            loss: The loss of the session, in log time by device and case.
            noise_factor: The factor that multiplies the noise of cases between sessions.
            launch_noise_factor: The factor that multiplies the noise between launches; None for
                `noise_factor`.

        """
        noise, random = self.noise, self.random
        fresh, memory = random.standard_normal(self.count), noise.shared_correlation
        self._shared = memory * self._shared + np.sqrt(1 - memory**2) * fresh
        noises = self._draw_standardized((self.count, self.cases))
        for case in range(1, self.cases) if noise.neighbour_correlation else ():
            if case % noise.payload_count:
                noises[:, case] *= np.sqrt(1 - noise.neighbour_correlation**2)
                noises[:, case] += noise.neighbour_correlation * noises[:, case - 1]
        fresh_share = np.sqrt(1 - noise.case_correlation**2)
        self._case_noise = noise.case_correlation * self._case_noise + fresh_share * noises
        middle = self.level + noise.shared_deviation * self._shared[:, None] + loss
        middle = middle + noise_factor * noise.session_deviation * self.scale * self._case_noise
        launch_noise = self._draw_standardized((self.count, self.cases, launches))
        launch_factor = noise_factor if launch_noise_factor is None else launch_noise_factor
        launch_noise *= launch_factor * noise.launch_deviation
        drawn: Array = middle[..., None] + self.launch_scale[..., None] * launch_noise
        if noise.slow_mode_factor != 1:
            slow = random.random((self.count, launches)) < _SLOW_MODE_SHARE
            drawn[np.arange(self.count), self.slow_mode_cases] += (
                np.log(noise.slow_mode_factor) * slow
            )
        if noise.tick_s:
            small = self.payloads <= _SMALL
            ticks = np.maximum(np.round(np.exp(drawn[:, small]) / noise.tick_s), 1)
            drawn[:, small] = np.log(ticks * noise.tick_s)
        return drawn

    def _draw_standardized(self, shape: tuple[int, ...]) -> Array:
        """Draw random values with a standard deviation of 1."""
        values, freedom = self.random.standard_normal(shape), self.noise.degrees_of_freedom
        if freedom:
            chi = self.random.chisquare(freedom, shape) / freedom
            values = values / np.sqrt(chi) * np.sqrt((freedom - 2) / freedom)
        return values
