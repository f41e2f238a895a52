"""Thresholds with their reasons, in one frozen Policy per device class.

Numbers and nothing else; what one rule alone needs may stand beside it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from busbw.model.words import MIB, Clock, Device

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

# A CPU quota explains a loss if it stopped the case for at least this part of the time that the
# case lost. It need not be all of it: the time of a launch is the lower quartile of its samples,
# and that of a case the median of its launches, so that stops in three quarters of the samples of
# half of the launches are enough to move it.
STOPPED_EXPLAINS = 1 / 3


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
    `false_alarms_of_curves` is the probability that a latency or a bandwidth of unchanged code is.
    """

    # Six pairs of launches are the fewest for which the bounds of the t-distribution are useful;
    # each next look has about a third more. On a CPU that other work shares, pairs of launches
    # measured in turn differ by 3 to 5 %, so that most unchanged cases pass at the first look.
    counts: tuple[int, ...] = (6, 9, 12, 16, 21, 28, 37, 49)
    confirming: int = 3
    # Two stacks in turn differ by nothing but noise, and have no history to be wrong about.
    false_alarms: float = 0.005
    # One slower case in ten may pass. The looks' levels are those of a known variance; with one
    # that is estimated from six pairs, 1.06 times as many pass in simulations, so a little less is
    # spent.
    misses: float = 0.095
    # Close to Pocock's test. Earlier spending (3) leaves twice as many noisy cases undecided after
    # the last look, later spending (0.5) takes more pairs until unchanged ones pass.
    spending: float = 1.0
    # Launches of one pass may share disturbances, and then the cases know less of the noise than
    # they seem to. Where three fifths of it are shared, 0.6 % of simulated sessions without a floor
    # suspect a case if the prior's weight has no limit, and 0.4 % with 20 degrees of freedom. More
    # would gain little: for one of 42 cases the bound of the first look is 5.4 standard deviations
    # of a pair with the case's own 5 degrees alone, 2.0 with 25, and 1.7 with any number.
    pooled_freedom: float = 20.0
    wanted: float = 0.05
    floor: float = 0.02
    false_alarms_of_curves: float = 0.004


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """The numbers of `rule`, as docs/verdict.md explains them. Deviations are those of log time.

    *Losses*: a case fails from `floor` on, a fraction of its time, all cases together from
    `slower`. Where a loss of `blind` would not fail, nothing can be said.

    *Levels*: the mean of the last `level_sessions` counted sessions, at most `anchor_margin` above
    that of the first `anchor_sessions`.

    *Noise*: `prior` is the expected deviation of a session, in the first `prior_sessions` sessions,
    with `prior_freedom` degrees of freedom, and `prior_shared` that of what all cases share. The
    variance of a session is at least `launch_share` of that of launches. All cases together count
    as `own_freedom` for one of them, its launches as `launch_freedom` at most; those of up to
    `near_sizes` sizes on either side count by `near_weight`. An odd variance counts as `clipped`
    medians at most; sessions are odd compared with what the case's launches lead to expect.

    *Limits*, in deviations: `factor` + `factor_of_one` / sessions for one session, `factor_shared`
    for what all cases share; `factor_window` + `factor_window_of_one` / sessions for several
    sessions, and `factor_shared_window` for what all cases share in these. Where
    the third farthest deviation of `tails_from` residuals or more is above `heavy`, the factor is
    `tails` times that. A loss is over once the session is `released` deviations below half of it.

    *Looks*: what is beyond the fraction `suspect` of a limit is measured again with `confirming`
    launches, which must be beyond that fraction, too, and the fastest of all beyond `by_fastest`.
    `by_neighbours`: the two sizes next to a case say what it shares, not all cases.

    *Noisy sessions*: cases deviate `noisier` times as much as usual, `noisier_at_first` times
    compared with a single session, or `widened` times and so do launches. From `widened` on limits
    are wider by `widening` times that, and after `noise_sessions` sessions, which show the noise,
    such a session makes no level. Fewer than `least_cases_of_noise` cases tell nothing.

    An accepted session was odd if it lies `odd` deviations from the sessions since.
    """

    floor: float
    slower: float
    blind: float
    prior: float
    prior_shared: float
    level_sessions: int = 20
    anchor_sessions: int = 10
    anchor_margin: float = 0.01
    factor: float = 4.07
    factor_of_one: float = 0.57
    factor_shared: float = 3.5
    factor_window: float = 4.5
    factor_window_of_one: float = 1.5
    factor_shared_window: float = 5.0
    windows: tuple[int, ...] = (2, 4, 8, 16)
    window_freedom: float = 0.25
    released: float = 0.7
    prior_freedom: float = 4.0
    prior_sessions: float = 2
    prior_shared_freedom: float = 6.0
    launch_share: float = 0.8
    own_freedom: float = 4.0
    launch_freedom: float = 16.0
    near_sizes: int = 2
    near_weight: float = 0.25
    clipped: float = 9.0
    least_deviation: float = 1e-3
    least_cases: int = 6
    least_cases_of_noise: int = 12
    noisier: float = 1.75
    noisier_at_first: float = 2.0
    widened: float = 1.35
    widening: float = 1.3
    noise_sessions: int = 5
    tails_from: int = 100
    heavy: float = 3.8
    tails: float = 1.6
    odd: float = 4.8
    suspect: float = 0.6
    confirming: int = 3
    by_fastest: float = 0.75
    by_neighbours: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """When a case, or a session, is slower than what it is compared with.

    `rule` is for stored times, `looks` for two stacks measured in turn. A device that `is_shared`
    does other work, too, which makes unchanged cases NOISY. A difference below
    `least_difference_s` seconds is no regression on a host's clock, which is no finer. Sessions
    that began within `session_apart` count as one; before there are `full_sessions`, a verdict is
    provisional. What confirms a suspicion is measured `later_s` seconds after the first launches.
    Accepted losses of a baseline may add up to `budget`, a fraction of the pinned time, before a
    reason is required.
    """

    rule: Rule
    looks: Looks
    is_shared: bool = False
    full_sessions: int = 3
    later_s: float = 0.0
    least_difference_s: float = 3e-6
    session_apart: timedelta = timedelta(hours=1)
    # Losses too small for any single verdict add up; a tenth of the bandwidth is one that people
    # care about, and still more than the limit of one comparison on most payloads.
    budget: float = 0.10

    def least_difference_of(self, clock: Clock) -> float:
        """Return the least difference in seconds that `clock` resolves; a device's resolves any."""
        return 0.0 if clock is Clock.DEVICE else self.least_difference_s


# A CPU that other work shares: twice the time, relative to what the other cases share, can be seen
# with a single session (docs/quiet.md has the figures).
_CPU = Policy(
    looks=Looks(false_alarms_of_curves=0.025),
    # Neighbouring sizes say what other work does to a case, and the fastest launch must be slower,
    # too. Less its neighbours a session differs by a tenth, and not normally: the factor is small,
    # because a loss is confirmed in three ways. How noisy a case is its launches do not say.
    rule=Rule(
        floor=0.15,
        slower=1.50,
        blind=3.0,
        prior=0.115,
        prior_shared=0.25,
        prior_freedom=60.0,
        prior_sessions=math.inf,
        launch_share=0.3,
        anchor_margin=0.10,
        launch_freedom=0.0,
        factor=2.75,
        factor_of_one=0.0,
        factor_window_of_one=0.0,
        factor_shared=2.5,
        heavy=math.inf,
        by_neighbours=True,
        by_fastest=1.0,
        least_cases_of_noise=sys.maxsize,
    ),
    # Of recorded sessions of unchanged code on a busy machine 16 to 30 % have more than a tenth of
    # their cases NOISY, and 9 to 20 % more than a tenth above their limits: red for nothing.
    is_shared=True,
    # Other work that outlasts a few launches is mostly over after a minute.
    later_s=60.0,
    # Half of how far a session can be off by noise alone; twenty losses of 2 % are 49 %.
    budget=0.25,
)

# An accelerator of one's own. Published calibrations have sessions of unchanged code differ by 0.5
# to 1 %.
_ACCELERATOR = Policy(
    looks=Looks(wanted=0.03, floor=0.01),
    rule=Rule(floor=0.02, slower=0.015, blind=0.5, prior=0.01, prior_shared=0.006),
)

POLICIES: Mapping[Device, Policy] = {
    Device.CPU: _CPU,
    Device.GPU: _ACCELERATOR,
    Device.TPU: _ACCELERATOR,
}
