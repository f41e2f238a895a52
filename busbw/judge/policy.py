"""Every threshold, each with its reason, in one frozen Policy per device class.

Numbers and nothing else: they are applied in `stored` and `paired`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from busbw.model import MIB, Device

# On two virtual ranks, at 1M and above, JAX's two clocks agree to 10 % (docs/measuring.md); a
# wrong count of iterations, a truncated trace or a hidden copy makes much more.
CLOCK_RATIO = 1.10

# Losses too small for any single verdict add up; a tenth of the bandwidth is one that people care
# about, and still more than the limit of one comparison on most payloads.
BUDGET = 0.10

# A session of unchanged code may have a regression once in 200 times: less than the once in a
# hundred that is promised, because noise is never quite as the model assumes.
FALSE_ALARMS = 0.005

# More than a tenth of the cases without an answer is no answer.
MOST_NOISY = 0.10

# Vendors round their figures. An error of measurement, such as collectives that are counted but
# did not run, makes much more.
ABOVE_HARDWARE = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """The looks of the sequential test, and their error rates.

    `counts` are the numbers of launches after which there is a look. `false_alarms` is the
    probability that a session of unchanged code has any regression, divided evenly among its cases;
    `misses` that a case slower by `wanted`, a fraction of its time, passes. A suspicion must be
    confirmed by `confirming` fresh launches. What is slower by less than `floor` is no regression.
    """

    counts: tuple[int, ...]
    confirming: int
    false_alarms: float
    misses: float
    wanted: float
    floor: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """Limits for payloads up to `up_to_bytes` (None: all larger ones), as fractions of a time."""

    up_to_bytes: int | None
    floor: float
    ceiling: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """When a case has regressed.

    Against a stored baseline the limit follows the noise between its sessions, never below the
    tier's floor; where the noise alone would set it above the tier's ceiling the case is NOISY.
    With fewer than `full_sessions` that noise is unknown: the ceiling is the limit, provisionally,
    for the best launch. The noise is estimated from the sessions and from the usual noise of such a
    device, `usual_noise`, which counts as much as `usual_freedom` degrees of freedom. If both sides
    have an anchor, log times are corrected by `anchor_weight` of its log time.

    `false_alarms` is for a whole session. A suspicion must be confirmed by `confirming` additional
    launches. A difference below `least_difference_s` seconds is never a regression: clocks and
    schedulers are no finer. `looks` are for two stacks measured in turn.

    The environment shifted if the anchor moved by more than `anchor_shift` with most cases. The
    tail, p90 over p25, is reported if it grew by `tail_ratio`. The host's and the device's clock
    may differ by a factor of `clock_ratio` before a note says so. Accepted losses of a baseline may
    add up to `budget`, a fraction of the pinned time, before a reason is required.
    """

    tiers: tuple[Tier, ...]
    usual_noise: float
    looks: Looks
    anchor_shift: float
    anchor_weight: float = 0.0
    usual_freedom: float = 4.0
    full_sessions: int = 3
    confirming: int = 3
    false_alarms: float = FALSE_ALARMS
    least_difference_s: float = 3e-6
    tail_ratio: float = 1.5
    budget: float = BUDGET
    clock_ratio: float = CLOCK_RATIO

    def tier(self, payload_bytes: int) -> Tier:
        """The tier that `payload_bytes` falls into."""
        return next(
            t for t in self.tiers if t.up_to_bytes is None or payload_bytes <= t.up_to_bytes
        )


# Six pairs of launches are the fewest for which the bounds of the t-distribution are useful; each
# next look has about a third more. On a CPU that other work shares, pairs of launches measured in
# turn differ by 3 to 5 % (docs/verdict.md), so that most unchanged cases pass at the first look.
_LOOKS = Looks(
    counts=(6, 9, 12, 16, 21, 28, 37, 49),
    confirming=3,
    false_alarms=FALSE_ALARMS,
    misses=0.10,
    wanted=0.05,
    floor=0.02,
)

# A CPU that other work shares: sessions differ by 5 to 30 %, and other work on the machine moves
# a whole session by 50 to 90 % (docs/verdict.md has the figures). With this ceiling three times the
# time is still detected by the best of a session's launches, which is up to 40 % below their
# median; other work alone has made 1.8 times.
_CPU = Policy(
    tiers=(Tier(up_to_bytes=None, floor=0.05, ceiling=1.00),),
    # What the recorded sessions need for no more than one false alarm in a hundred.
    usual_noise=0.10,
    # The full weight would over-correct: what slows memory down slows small sums down by less.
    # Half lowers the spread of sessions by a third at 1M, 4M and 16M alike (docs/verdict.md).
    anchor_weight=0.5,
    anchor_shift=0.50,
    looks=_LOOKS,
    # Half of how far a session can be off by noise alone; twenty losses of 2 % are 49 %.
    budget=0.25,
)

# An accelerator of one's own: tiers from a paired calibration of RCCL on four nodes (12.5, 6.1
# and 3 % for up to 1 MiB, up to 64 MiB and above) until there is a calibration of our own.
_ACCELERATOR = Policy(
    tiers=(
        Tier(up_to_bytes=MIB, floor=0.06, ceiling=0.25),
        Tier(up_to_bytes=64 * MIB, floor=0.04, ceiling=0.15),
        Tier(up_to_bytes=None, floor=0.03, ceiling=0.10),
    ),
    usual_noise=0.01,
    anchor_shift=0.05,
    looks=replace(_LOOKS, wanted=0.03, floor=0.01),
)

POLICIES: Mapping[Device, Policy] = {
    Device.CPU: _CPU,
    Device.GPU: _ACCELERATOR,
    Device.TPU: _ACCELERATOR,
}
