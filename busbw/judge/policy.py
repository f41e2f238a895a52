"""The thresholds of all rules with their reasons, in one frozen Policy per device class.

docs/verdict.md explains the rules, and docs/quiet.md has the error rates for which the numbers were
chosen.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from busbw.model.words import Clock, Device

# More than a tenth of the cases without an answer is no answer.
MOST_NOISY = 0.10

# The errors of latency and bandwidth come from a few sizes of a few launches each, and are known
# with as few degrees of freedom.
CURVE_FREEDOM = 10.0

# Vendors round their figures. An error of measurement, such as collectives that are counted but
# did not run, makes much more.
ABOVE_HARDWARE = 0.05

# The interval that is shown has 95 %: a probability of 0.025 at either side.
SHOWN_LEVEL = 0.025

# A clock that ticks gives values that are one tick apart, or a little more because of rounding.
MIN_LOSS_TICKS = 1.1

# Rule.noisy_ratio is meant for the cases of two frameworks with 21 sizes; with fewer cases chance
# alone makes larger ratios.
CASES_FOR_NOISY_RATIO = 42

# How noisy a session is, is read from this quantile of the deviations of its cases, which a few
# cases that really changed do not move. A normal deviation exceeds NORMAL_AT_QUANTILE standard
# deviations with a probability of 30 %.
NOISE_QUANTILE = 0.7
NORMAL_AT_QUANTILE = 1.036

# The median of the last three sessions must be slower, too: a single outlier is no lasting loss,
# and three sessions below half of a loss end it.
LAST_SESSIONS = 3

# How often sessions were noisy is reported over the last ten sessions.
RECENT_SESSIONS = 10

# The variance of the median of many normal values, in variances of their mean.
MEDIAN_VARIANCE = math.pi / 2

# The variance of what the cases of a framework share, in variances of their mean. It is larger than
# that of a median, since cases outside of their limits are left out and sizes disturb each other;
# chosen with the numbers of the rule for the error rates of docs/quiet.md.
SHARED_ERROR_VARIANCE = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """The looks of the sequential test of two interleaved stacks, and their error rates.

    Both error rates are spent over the looks by the function of Hwang, Shih and DeCani (1990).
    """

    # There is a look after each of these numbers of launches. Six pairs of launches are the fewest
    # for which the bounds of the t-distribution are useful; each next look has about a third more.
    # On a CPU that other work shares, interleaved pairs of launches differ by 3 to 5 %, so that
    # most unchanged cases pass at the first look.
    counts: tuple[int, ...] = (6, 9, 12, 16, 21, 28, 37, 49)
    # As many new pairs of launches must confirm that a case seems slower.
    confirming_launches: int = 3
    # The probability that a session of unchanged code has any regression, divided evenly among its
    # cases. Two interleaved stacks differ by nothing but noise, and have no history to be wrong
    # about.
    false_alarm_rate: float = 0.005
    # The probability that a case which is slower by `detectable_loss` passes: one in ten. The
    # levels of the looks are those of a known variance; with a variance that is estimated from six
    # pairs, 1.06 times as many pass in simulations, so a little less is spent.
    miss_rate: float = 0.095
    # The parameter of the spending function, close to Pocock's test. Earlier spending (3) leaves
    # twice as many noisy cases undecided after the last look, later spending (0.5) takes more pairs
    # until unchanged ones pass.
    spending_shape: float = 1.0
    # The session's other cases count as this many degrees of freedom at most. Launches of one
    # round may share disturbances, and then the cases know less of the noise than they seem to.
    # Where three fifths of it are shared, 0.6 % of simulated sessions without a floor have a case
    # that seems slower if the prior's weight has no limit, and 0.4 % with 20 degrees of freedom.
    # More would gain little: for one of 42 cases the bound of the first look is 5.4 standard
    # deviations of a pair with the case's 5 degrees alone, 2.0 with 25, and 1.7 with any number.
    pooled_freedom: float = 20.0
    # The loss that must be detected, as a fraction of the reference's time.
    detectable_loss: float = 0.05
    # A case that is slower by less than this fraction has not regressed.
    min_loss: float = 0.02
    # The probability that a latency or a bandwidth of unchanged code seems slower.
    curve_false_alarm_rate: float = 0.004


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """The numbers of the rule against stored times (`judge.rule`), which docs/verdict.md explains.

    Times are natural logarithms of seconds. A session's *residual* is its distance from the
    level of its case, less what the cases share; *sigmas* are limits in standard deviations of the
    residual. Where no reason is given, the number was chosen together with the others for the error
    rates of docs/quiet.md.
    """

    # Losses, as fractions of the expected time. A smaller loss of one case never fails.
    min_case_loss: float
    # A smaller loss of all cases of a framework together never fails.
    min_session_loss: float
    # A case whose limit exceeds this loss is NOISY: a loss that everybody would want to know of
    # could not be seen.
    max_useful_limit: float

    # The level is the mean of the last `level_sessions` sessions that count, and follows the
    # machine; it is at most `anchor_margin` above the mean of the first `anchor_sessions`, so that
    # losses too small for any limit cannot add up unseen.
    level_sessions: int = 20
    anchor_sessions: int = 10
    anchor_margin: float = 0.01

    # The noise that is expected before there are sessions: the standard deviation of a session
    # of one case, and of what the cases of a framework share.
    prior_deviation: float
    prior_shared_deviation: float
    # The expectation counts as this many degrees of freedom, and only in the first
    # `prior_sessions` sessions; later ones know better.
    prior_freedom: float = 4.0
    prior_shared_freedom: float = 6.0
    prior_sessions: float = 2
    # The variance of a session is at least this part of that of launches: sessions that happened
    # to agree do not show that a noisy case is quiet.
    min_launch_variance_share: float = 0.8
    # For the noise of one case all cases together count as `pooled_freedom` degrees of freedom,
    # the launches of the case as `max_launch_freedom` at most, and those of `neighbour_sizes`
    # sizes on either side by `neighbour_weight`: noise depends on the payload.
    pooled_freedom: float = 4.0
    max_launch_freedom: float = 16.0
    neighbour_sizes: int = 2
    neighbour_weight: float = 0.25
    # A variance counts as at most so many medians of all variances: one odd case does not make
    # the others noisy.
    max_variance_ratio: float = 9.0
    # No time is known better than to a thousandth, whatever equal launches say.
    min_deviation: float = 1e-3

    # One session: a case fails above `case_sigmas` + `case_sigmas_over_sessions` / sessions, all
    # cases of a framework above `shared_sigmas`. A few sessions know their noise less well.
    case_sigmas: float = 4.07
    case_sigmas_over_sessions: float = 0.57
    shared_sigmas: float = 3.5
    # With `min_tail_residuals` residuals or more the third farthest one shows whether tails are
    # heavier than normal: above `heavy_tail_sigmas` the limit is `heavy_tail_factor` times it.
    min_tail_residuals: int = 100
    heavy_tail_sigmas: float = 3.8
    heavy_tail_factor: float = 1.6

    # Several sessions: the mean of the last so many sessions is compared with the level before
    # them. They may be alike for other reasons than a loss, so the variance of their mean is at
    # least `min_window_variance_share` of that of one session.
    windows: tuple[int, ...] = (2, 4, 8, 16)
    min_window_variance_share: float = 0.25
    window_sigmas: float = 4.5
    window_sigmas_over_sessions: float = 1.5
    shared_window_sigmas: float = 5.0
    # A loss is over once the session is so many standard deviations below half of it.
    recovery_sigmas: float = 0.7
    # The accepted session was odd if it lies so many standard deviations from all sessions since.
    odd_sigmas: float = 4.8

    # A case above the part `suspicion_share` of its limit is measured again: a loss at the limit
    # is not to be missed because its first launches were fast. So many launches must confirm it,
    # above that part, too, and the fastest launch of all must be above `fastest_share` of the
    # limit.
    suspicion_share: float = 0.6
    confirming_launches: int = 3
    fastest_share: float = 0.75
    # Compare a case with the two sizes next to it, not with all cases of its framework.
    compares_neighbours: bool = False

    # With fewer cases a framework has no shared part, and with fewer in all no noise of a session
    # can be told from a loss.
    min_shared_cases: int = 6
    min_cases_for_noise: int = 12
    # A session is noisy, and has no verdict, if its cases deviate `noisy_ratio` times as much as
    # usual (`first_noisy_ratio` times if there is a single session to compare with), or if they
    # deviate `widening_ratio` times as much and launches differ `noisy_ratio` times as much. From
    # `widening_ratio` on limits are wider by `widening_factor` times the ratio.
    noisy_ratio: float = 1.75
    first_noisy_ratio: float = 2.0
    widening_ratio: float = 1.35
    widening_factor: float = 1.3
    # After so many sessions, which show the noise, a session with wider limits makes no level.
    noise_sessions: int = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """All thresholds of one class of devices.

    `rule` is for stored times, `looks` for two interleaved stacks.
    """

    rule: Rule
    looks: Looks
    # The device does other work, too, which makes unchanged cases NOISY.
    is_shared: bool = False
    # With fewer sessions a verdict is provisional.
    full_sessions: int = 3
    # What confirms that a case seems slower is measured so many seconds after the first launches.
    confirmation_delay_s: float = 0.0
    # A smaller difference in seconds is no regression on a host's clock, which is no finer.
    least_difference_s: float = 3e-6
    # Sessions that began within this time count as one: they share the state of the machine.
    session_apart: timedelta = timedelta(hours=1)
    # Accepted losses may add up to this fraction of the accepted time before a reason is required.
    # Losses too small for any single verdict add up; a tenth of the bandwidth is one that people
    # care about, and still more than the limit of one comparison on most payloads.
    budget: float = 0.10

    def least_difference_of(self, clock: Clock) -> float:
        """Return the least difference in seconds that `clock` resolves; a device's resolves any."""
        return 0.0 if clock is Clock.DEVICE else self.least_difference_s


# A CPU that other work shares: twice the time, relative to what the other cases share, can be seen
# with a single session (docs/quiet.md has the figures).
_CPU = Policy(
    looks=Looks(curve_false_alarm_rate=0.025),
    # Neighbouring sizes say what other work does to a case, and the fastest launch must be slower,
    # too. Less its neighbours a session differs by a tenth, and not normally: the factor is small,
    # because a loss is confirmed in three ways. How noisy a case is its launches do not say.
    rule=Rule(
        min_case_loss=0.15,
        min_session_loss=1.50,
        max_useful_limit=3.0,
        prior_deviation=0.115,
        prior_shared_deviation=0.25,
        prior_freedom=60.0,
        prior_sessions=math.inf,
        min_launch_variance_share=0.3,
        anchor_margin=0.10,
        max_launch_freedom=0.0,
        case_sigmas=2.75,
        case_sigmas_over_sessions=0.0,
        window_sigmas_over_sessions=0.0,
        shared_sigmas=2.5,
        heavy_tail_sigmas=math.inf,
        compares_neighbours=True,
        fastest_share=1.0,
        min_cases_for_noise=sys.maxsize,
    ),
    # Of recorded sessions of unchanged code on a busy machine 16 to 30 % have more than a tenth of
    # their cases NOISY, and 9 to 20 % more than a tenth above their limits: red for nothing.
    is_shared=True,
    # Other work that outlasts a few launches is mostly over after a minute.
    confirmation_delay_s=60.0,
    # Half of how far a session can be off by noise alone; twenty losses of 2 % are 49 %.
    budget=0.25,
)

# A dedicated accelerator. Published calibrations have sessions of unchanged code differ by 0.5 to
# 1 %.
_ACCELERATOR = Policy(
    looks=Looks(detectable_loss=0.03, min_loss=0.01),
    rule=Rule(
        min_case_loss=0.02,
        min_session_loss=0.015,
        max_useful_limit=0.5,
        prior_deviation=0.01,
        prior_shared_deviation=0.006,
    ),
)

POLICIES: Mapping[Device, Policy] = {
    Device.CPU: _CPU,
    Device.GPU: _ACCELERATOR,
    Device.TPU: _ACCELERATOR,
}
