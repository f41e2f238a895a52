"""Every threshold, each with its reason, in one frozen Policy per device class.

Numbers and nothing else: how they are applied stands in `case`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from busbw.model import MIB, Device

# On two virtual ranks, at 1M and above, JAX's two clocks agree to 10 % (docs/measuring.md); a
# wrong count of iterations, a cut trace or a hidden copy shows as much more.
CLOCK_RATIO = 1.10

# Losses too small for any single verdict add up; a tenth of the bandwidth is one that people care
# about, and still more than the limit of one comparison on most payloads.
BUDGET = 0.10


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """Limits for payloads up to `up_to_bytes` (None: all larger ones), as fractions of a time."""

    up_to_bytes: int | None
    floor: float
    ceiling: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """When a case has regressed.

    The limit is `noise_factor` x the baseline's own relative spread, never below the tier's
    floor, never above its ceiling. With fewer than `full_launches` baseline launches the spread
    is not known well enough: `provisional` holds instead, and it is said. A difference below
    `least_difference_s` seconds is never a regression: clocks and schedulers are no finer. Host's
    and device's clock may differ by a factor of `clock_ratio` before it is said. Accepted losses of
    a baseline may add up to `budget`, a fraction of the pinned time, before a reason is asked for.
    """

    tiers: tuple[Tier, ...]
    noise_factor: float
    full_launches: int
    provisional: float
    least_difference_s: float
    budget: float = BUDGET
    clock_ratio: float = CLOCK_RATIO

    def tier(self, payload_bytes: int) -> Tier:
        """The tier that `payload_bytes` falls into."""
        return next(
            t for t in self.tiers if t.up_to_bytes is None or payload_bytes <= t.up_to_bytes
        )


# Three robust standard deviations: with normal noise one launch in 700 lies beyond.
_NOISE_FACTOR = 3.0

# Below five launches a median absolute deviation is hardly an estimate at all.
_FULL_LAUNCHES = 5

# A CPU that other work shares: launches of one session differ by 5 to 30 %, and other work on the
# machine moves a whole session by 50 to 90 % (docs/verdict.md has the figures), so the floor is
# not below 60 %. The ceiling is what still lets three times the time be seen through the best of
# five launches, which lies up to 40 % below their median.
_CPU = Policy(
    tiers=(Tier(up_to_bytes=None, floor=0.60, ceiling=0.80),),
    noise_factor=_NOISE_FACTOR,
    full_launches=_FULL_LAUNCHES,
    provisional=1.00,
    least_difference_s=20e-6,
    # As much as one comparison may let pass at most: less may be other work's doing.
    budget=0.80,
)

# An accelerator of one's own: tiers from a paired calibration of RCCL on four nodes (12.5, 6.1
# and 3 % for up to 1 MiB, up to 64 MiB and above) until there is a calibration of our own.
_ACCELERATOR = Policy(
    tiers=(
        Tier(up_to_bytes=MIB, floor=0.12, ceiling=0.20),
        Tier(up_to_bytes=64 * MIB, floor=0.06, ceiling=0.12),
        Tier(up_to_bytes=None, floor=0.04, ceiling=0.08),
    ),
    noise_factor=_NOISE_FACTOR,
    full_launches=_FULL_LAUNCHES,
    provisional=0.25,
    least_difference_s=3e-6,
)

POLICIES: Mapping[Device, Policy] = {
    Device.CPU: _CPU,
    Device.GPU: _ACCELERATOR,
    Device.TPU: _ACCELERATOR,
}
