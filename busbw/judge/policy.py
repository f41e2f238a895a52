"""Every threshold, each with its reason, in one frozen Policy per device class.

Numbers and nothing else: they are applied in `stored`, `drift`, `session`, `paired` and `compiled`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from busbw.model import MIB, Clock, Device
from busbw.stats import Expected, Variance

# On two virtual ranks, at 1M and above, JAX's two clocks agree to 10 % (docs/measuring.md); a
# wrong count of iterations, a truncated trace or a hidden copy makes much more.
CLOCK_RATIO = 1.10

# Losses too small for any single verdict add up; a tenth of the bandwidth is one that people care
# about, and still more than the limit of one comparison on most payloads.
BUDGET = 0.10

# A session of unchanged code may be red once in 125 times: less than the once in a hundred that is
# promised, because noise is never quite as the model assumes.
FALSE_ALARMS = 0.008
# Two stacks in turn differ by nothing but noise, and have no history to be wrong about.
FALSE_ALARMS_IN_TURN = 0.005

# More than a tenth of the cases without an answer is no answer.
MOST_NOISY = 0.10

# The errors of latency and bandwidth come from a few sizes of a few launches each, and are known
# with as few degrees of freedom.
CURVE_FREEDOM = 10.0

# Memory of one rank that was compiled may grow by this fraction, or by this number of bytes, the
# larger of both: a compiler's scratch space changes by some KiB from release to release, and a
# hundredth of a chip's memory decides about no payload in steps of two.
MEMORY_GROWTH = 0.01
LEAST_MEMORY_GROWTH_BYTES = MIB

# Vendors round their figures. An error of measurement, such as collectives that are counted but
# did not run, makes much more.
ABOVE_HARDWARE = 0.05

# The interval that is shown has 95 %: a probability of 0.025 at either side.
SHOWN_LEVEL = 0.025

# That the tail grew is a note and fails nothing, so it is written only where it is sure, one false
# note in a thousand cases, and large enough to be looked into: a fifth.
TAIL_LEVEL = 0.001
TAIL_GROWTH = 0.2


# A process that the others wait for is named if it takes half as much again as they do, in every
# launch: processes that share a machine's processors differ by less.
STRAGGLES = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """The looks of the sequential test, and their error rates.

    `counts` are the numbers of launches after which there is a look. `false_alarms` is the
    probability that a session of unchanged code has any regression, divided evenly among its cases;
    `misses` that a case slower by `wanted`, a fraction of its time, passes. Both are spent over the
    looks by the function of Hwang, Shih and DeCani with the parameter `spending`. The noise of a
    case's pairs is estimated from the session's other cases too, which together count as
    `pooled_freedom` degrees of freedom at most. A suspicion must be confirmed by `confirming` fresh
    launches. What is slower by less than `floor` is no regression.
    """

    counts: tuple[int, ...]
    confirming: int
    false_alarms: float
    misses: float
    spending: float
    pooled_freedom: float
    wanted: float
    floor: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """When a case, or a session, is slower than a stored level.

    A case has REGRESSED beyond a limit that noise alone exceeds with the probability
    `false_alarms` of a session, half of it for its cases and half for what they have in common, and
    never below `floor`, a fraction of the time. What is beyond the fraction `suspect` of the limit
    is measured again: `confirming` fresh launches must be beyond that fraction, too, while all
    launches are beyond the limit. Where cases differ among each other by `noisier` times as much as
    usual, in standard deviations, something else was running, and the limit is wider.

    A case passes where a loss of `worth` is ruled out with the probability 1 - `ruled_out`; before
    `full_sessions` there are, one of `worth_early`. What would have been flagged with the
    probability 1 - `detected` is reported. A difference below `least_difference_s` seconds is no
    regression on a host's clock, which is no finer.

    The session is SLOWER where what cases share is above `slower`, and DRIFT where a level is above
    the accepted one by `drift`; both must be beyond the noise, too. `expected` is what is known of
    the noise before there are sessions. Sessions that began within `session_apart` count as one.

    `looks` are for two stacks measured in turn. The host's and the device's clock may differ by a
    factor of `clock_ratio` before a note says so. Accepted losses of a baseline may add up to
    `budget`, a fraction of the pinned time, before a reason is required.
    """

    floor: float
    worth: float
    worth_early: float
    slower: float
    drift: float
    expected: Expected
    looks: Looks
    full_sessions: int = 3
    confirming: int = 3
    suspect: float = 0.67
    noisier: float = 2.0
    false_alarms: float = FALSE_ALARMS
    ruled_out: float = 0.10
    detected: float = 0.05
    least_difference_s: float = 3e-6
    session_apart: timedelta = timedelta(hours=1)
    budget: float = BUDGET
    clock_ratio: float = CLOCK_RATIO

    @property
    def false_alarms_of_cases(self) -> float:
        """The share of a session's false alarms for all of its cases."""
        return self.false_alarms / 2

    @property
    def false_alarms_of_session(self) -> float:
        """The share for what cases have in common."""
        return self.false_alarms / 2

    def worth_after(self, sessions: int) -> float:
        """The loss worth seeing, a fraction, where a level is of that many sessions."""
        return self.worth if sessions >= self.full_sessions else self.worth_early

    def least_difference_of(self, clock: Clock) -> float:
        """The least difference in seconds that `clock` resolves; a device's own resolves any."""
        return 0.0 if clock is Clock.DEVICE else self.least_difference_s


# Six pairs of launches are the fewest for which the bounds of the t-distribution are useful; each
# next look has about a third more. On a CPU that other work shares, pairs of launches measured in
# turn differ by 3 to 5 % (docs/verdict.md), so that most unchanged cases pass at the first look.
#
# One slower case in ten may pass. The looks' levels are those of a known variance; with one that is
# estimated from six pairs, 1.06 times as many pass in simulations, so a little less is spent.
#
# Spending 1 is close to Pocock's test. Earlier spending (3) leaves twice as many noisy cases
# undecided after the last look, later spending (0.5) takes more pairs until unchanged ones pass.
#
# Launches of one pass may share disturbances, and then the cases know less of the noise than they
# seem to. Where three fifths of it are shared, 0.6 % of simulated sessions without a floor suspect
# a case if the prior's weight has no limit, and 0.4 % with 20 degrees of freedom. More would gain
# little: for one of 42 cases the bound of the first look is 5.4 standard deviations of a pair with
# the case's own 5 degrees alone, 2.0 with 25, and 1.7 with any number.
_LOOKS = Looks(
    counts=(6, 9, 12, 16, 21, 28, 37, 49),
    confirming=3,
    false_alarms=FALSE_ALARMS_IN_TURN,
    misses=0.095,
    spending=1.0,
    pooled_freedom=20.0,
    wanted=0.05,
    floor=0.02,
)

# A CPU that other work shares: twice the time, relative to what the other cases share, can be seen
# with a single session (docs/verdict.md has the figures).
_CPU = Policy(
    floor=0.10,
    worth=1.00,
    # Other work doubles the time of a whole session, and with a single one before it that cannot be
    # told from the noise.
    worth_early=2.00,
    slower=1.50,
    drift=0.50,
    expected=Expected(
        own=Variance(value=0.09**2, freedom=30),
        shared=Variance(value=0.20**2, freedom=12),
        least_deviation=0.03,
        neighbours=7,
    ),
    # Other work makes more false alarms than any noise that was there before: one session in twenty
    # is what a machine that is not one's own allows.
    false_alarms=0.05,
    looks=_LOOKS,
    # Half of how far a session can be off by noise alone; twenty losses of 2 % are 49 %.
    budget=0.25,
)

# An accelerator of one's own. Published calibrations have sessions of unchanged code differ by 0.5
# to 1 %; what is usual counts as little as four degrees of freedom, so that sessions of the device
# itself say soon what it is.
_ACCELERATOR = Policy(
    floor=0.02,
    worth=0.05,
    worth_early=0.10,
    slower=0.015,
    drift=0.015,
    expected=Expected(
        own=Variance(value=0.01**2, freedom=4),
        shared=Variance(value=0.004**2, freedom=6),
    ),
    looks=replace(_LOOKS, wanted=0.03, floor=0.01),
)

POLICIES: Mapping[Device, Policy] = {
    Device.CPU: _CPU,
    Device.GPU: _ACCELERATOR,
    Device.TPU: _ACCELERATOR,
}
