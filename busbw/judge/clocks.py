"""Whether the clocks of a launch agree; what they say of a regression is not decided here."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from busbw.model import Clock, Run, seconds_text

from .policy import Policy


def disagreement(runs: Sequence[Run], policy: Policy) -> tuple[str, ...]:
    """A sentence if the host's and the device's clock differ beyond the policy's limit.

    Medians over the launches that read both; nothing where none did.
    """
    both = [(run.clocks_s[Clock.HOST], run.clocks_s[Clock.DEVICE]) for run in runs if _has(run)]
    if not both:
        return ()
    ratio = statistics.median(host_s / device_s for host_s, device_s in both)
    if 1 / policy.clock_ratio <= ratio <= policy.clock_ratio:
        return ()
    host_s, device_s = (statistics.median(times_s) for times_s in zip(*both))
    return (
        f"clocks disagree: host {seconds_text(host_s)}, device {seconds_text(device_s)}, "
        f"{ratio:.2f} x (limit {policy.clock_ratio:.2f} x either way)",
    )


def _has(run: Run) -> bool:
    return {Clock.HOST.value, Clock.DEVICE.value} <= set(run.clocks_s)
