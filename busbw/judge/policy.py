"""All thresholds of the judge with their reasons: a frozen Policy for each class of devices.

docs/verdict.md explains the rules. docs/quiet.md has the error rates for which the numbers were
chosen.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from busbw.model.words import Clock, DeviceClass

# A session has no verdict if more than this fraction of its cases is NOISY.
MAX_NOISY_CASE_SHARE = 0.10

# How far a bandwidth may exceed the ceiling of the hardware, as a fraction: vendors round their
# figures. An error of measurement, such as a collective that is counted but did not run, exceeds
# the ceiling by much more.
CEILING_MARGIN = 0.05

# A ratio of two interleaved stacks is shown with a 95 % confidence interval: a probability of 0.025
# is left out at each end of the interval.
INTERVAL_TAIL_PROBABILITY = 0.025

# If the clock advances in steps, a loss must exceed this many steps: unchanged times may differ by
# one step, or a little more because of rounding.
MIN_LOSS_TICKS = 1.1

# RuleThresholds.noisy_ratio is chosen for this many cases, two frameworks with 21 payloads each.
# With fewer cases chance alone makes larger ratios, and the threshold is higher.
NOISY_RATIO_CASE_COUNT = 42

# This quantile of the absolute residuals of all cases measures the noise of a session. A few cases
# that really changed do not move this quantile.
NOISE_RESIDUAL_QUANTILE = 0.7

# A normal value is farther from its mean than this many standard deviations with a probability of
# 30 %, which is 1 - NOISE_RESIDUAL_QUANTILE.
SIGMAS_AT_NOISE_QUANTILE = 1.036

# The median of this many last sessions must also show a loss over several sessions, because a
# single outlier is no lasting loss. A loss ends if this median is below half of the loss.
LAST_MEDIAN_SESSION_COUNT = 3

# The variance between sessions with three launches, divided by the variance between sessions with
# a single launch. This ratio is 0.72 if launches differ as much as sessions, 0.45 if only launches
# differ, and 1 if only sessions differ.
THREE_TO_SINGLE_LAUNCH_VARIANCE_RATIO = 0.7

# With `--launches=auto`, a single launch of a case is enough if the level of the case has at least
# AUTO_MIN_SESSION_COUNT sessions, and if the loss of the launch is at most the fraction
# AUTO_LIMIT_SHARE of the limit. All other cases get all launches. So do the fraction
# AUTO_RANDOM_CASE_SHARE of the cases, drawn at random, and all cases of every session whose number
# is a multiple of AUTO_WHOLE_SESSION_INTERVAL, because several launches of a case show how launches
# differ.
AUTO_MIN_SESSION_COUNT, AUTO_LIMIT_SHARE, AUTO_RANDOM_CASE_SHARE, AUTO_WHOLE_SESSION_INTERVAL = (
    5,
    0.5,
    0.1,
    10,
)

# A session reports how many of this many last sessions were noisy.
SESSIONS_IN_NOISE_REPORT = 10

# The variance of the median of many normal values, divided by the variance of their mean.
MEDIAN_TO_MEAN_VARIANCE_RATIO = math.pi / 2

# The variance of the shared part of a framework's cases, divided by the variance of their mean. It
# exceeds MEDIAN_TO_MEAN_VARIANCE_RATIO, because cases outside of their limits are left out, and
# because neighbouring payloads disturb each other. The number was chosen together with the numbers
# of RuleThresholds for the error rates of docs/quiet.md.
SHARED_TO_MEAN_VARIANCE_RATIO = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class SequentialTestThresholds:
    """The looks and the error rates of the sequential test that compares two interleaved stacks.

    A look is a moment at which the test can decide on a case, after a certain number of pairs of
    launches. A pair is a launch of each stack. The test has two error rates: of false alarms, and
    of misses. The error-spending function of Hwang, Shih and DeCani (1990) divides both error rates
    among the looks. Losses are fractions of the reference's time.
    """

    # There is a look after each of these numbers of pairs of launches. Six pairs are the fewest for
    # which the bounds of the t-distribution are useful. Each further look has about a third more
    # pairs. On a CPU with other work, the launches of a pair differ by 3 to 5 %, so that most
    # unchanged cases pass at the first look.
    pair_counts: tuple[int, ...] = (6, 9, 12, 16, 21, 28, 37, 49)
    # This many additional pairs of launches must confirm that a case seems slower.
    confirming_pair_count: int = 3
    # The probability that a session of unchanged code has a REGRESSED case. This probability is
    # divided evenly among the cases. The probability can be low, because interleaved stacks share
    # the state of the machine.
    session_false_alarm_rate: float = 0.005
    # The probability that a case passes although it is slower by `detectable_loss`: one in ten. The
    # significance levels of the looks assume that the variance is known. With a variance estimated
    # from six pairs, 1.06 times as many cases pass in simulations, so the rate is a little lower.
    miss_rate: float = 0.095
    # The parameter of the error-spending function. 1 is close to Pocock's test. 3 spends more at
    # early looks: twice as many noisy cases are undecided after the last look. 0.5 spends more at
    # late looks: unchanged cases need more pairs to pass.
    spending_shape: float = 1.0
    # For the noise of one case, the other cases of the session count as at most this many degrees
    # of freedom. Launches of one round may share disturbances, so that the other cases tell less
    # than independent cases. In simulated sessions three fifths of the noise are shared, and
    # `min_loss` is 0. Then 0.4 % of the sessions have a case that seems slower, and 0.6 % without
    # this limit. More degrees of freedom would gain little: the bound of the first look for one of
    # 42 cases is 5.4 standard deviations of a pair with the case's own 5 degrees of freedom, 2.0
    # with 25, and 1.7 with any number.
    max_pooled_degrees_of_freedom: float = 20.0
    # The loss that must be detected, as a fraction of the reference's time.
    detectable_loss: float = 0.05
    # A case that is slower by less than this fraction has not regressed.
    min_loss: float = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleThresholds:
    """The thresholds of the rule that compares measured times with stored times (docs/verdict.md).

    Times are natural logarithms of seconds. The residual of a case is its log time minus its level
    and minus the shared part of its framework. Parts of the names of fields:

    - `sigmas`: a limit in standard deviations. `sigmas_over_sessions` is divided by the number of
      sessions, and the quotient is added to that limit
    - `shared`: about the shared part of a framework, not about a single case
    - `anchor`: the first sessions of a case, above which the level may rise only a little
    - `window`: about a loss over several sessions, not in a single session
    - `prior`: the noise that is expected before sessions show the noise
    - `share`: a fraction of a limit

    A number without a reason was chosen together with the other numbers, for the error rates of
    docs/quiet.md.
    """

    # A smaller loss of one case never fails. Losses are fractions of the expected time.
    min_case_loss: float
    # A smaller loss of all cases of a framework together never fails.
    min_session_loss: float
    # A case whose limit exceeds this loss is NOISY, because the rule would miss a loss that matters
    # to every user.
    max_useful_limit: float

    # The level is the mean of the last `level_session_count` sessions that count, so that it
    # follows the machine. The level is at most `anchor_margin` (in log time) above the mean of the
    # first `anchor_session_count` sessions. Otherwise losses too small for any limit would add up
    # unnoticed.
    level_session_count: int = 20
    anchor_session_count: int = 10
    anchor_margin: float = 0.01

    # The noise that is expected before sessions show it, in log time: the standard deviation of one
    # case between sessions, and of the shared part of a framework.
    prior_stddev: float
    prior_shared_stddev: float
    # The expected noise counts as this many degrees of freedom. The expected noise of a case is
    # used up to `max_prior_session_count` sessions, because more sessions show the noise better.
    prior_degrees_of_freedom: float = 4.0
    prior_shared_degrees_of_freedom: float = 6.0
    max_prior_session_count: float = 2
    # The least expected variance between sessions, divided by the variance between launches: a few
    # sessions that agree by chance do not show that a noisy case is quiet.
    min_session_to_launch_variance_ratio: float = 0.8
    # The weights of other data in the noise of one case. All cases together count as
    # `max_pooled_degrees_of_freedom`. The launches of the case with its neighbours count as at most
    # `max_launch_degrees_of_freedom`. Neighbours are the payloads up to `neighbour_distance` places
    # away on either side, because noise depends on the payload. A launch of a neighbour counts
    # `neighbour_weight` times.
    max_pooled_degrees_of_freedom: float = 4.0
    max_launch_degrees_of_freedom: float = 16.0
    neighbour_distance: int = 2
    neighbour_weight: float = 0.25
    # A variance counts as at most this many medians of all variances, so that a single odd case
    # does not make other cases noisy.
    max_variance_ratio: float = 9.0
    # The least standard deviation between launches. Even if launches are equal, no time is known
    # more accurately.
    min_launch_stddev: float = 1e-3

    # A case is slower in one session if its residual exceeds `case_sigmas` +
    # `case_sigmas_over_sessions` / sessions, because few sessions make the noise less certain. All
    # cases of a framework together are slower above `shared_sigmas`.
    case_sigmas: float = 4.07
    case_sigmas_over_sessions: float = 0.57
    shared_sigmas: float = 3.5
    # With at least `min_residual_count_for_tails` residuals, the third largest residual shows
    # whether tails are heavier than normal. If it exceeds `heavy_tail_sigmas`, the limit is
    # `heavy_tail_residual_factor` times that residual.
    min_residual_count_for_tails: int = 100
    heavy_tail_sigmas: float = 3.8
    heavy_tail_residual_factor: float = 1.6

    # A loss over several sessions is found by comparing the mean of this many last sessions with
    # the level before them. Sessions may be alike for other reasons than a loss. So the variance of
    # their mean is at least `min_window_to_session_variance` times the variance of a session. The
    # limit is `window_sigmas` plus `window_sigmas_over_sessions` / number of earlier sessions.
    window_lengths: tuple[int, ...] = (2, 4, 8, 16)
    min_window_to_session_variance: float = 0.25
    window_sigmas: float = 4.5
    window_sigmas_over_sessions: float = 1.5
    shared_window_sigmas: float = 5.0
    # A loss is over once a session is more than this many standard deviations below half of it.
    recovery_sigmas: float = 0.7
    # The accepted session is reported as unusual if it is more than this many standard deviations
    # away from the median of all later sessions.
    unusual_accepted_sigmas: float = 4.8

    # A case above the fraction `suspicion_limit_share` of its limit is measured again, so that a
    # loss at the limit is not missed because the first launches were fast. The additional
    # `confirming_launch_count` launches must exceed the same fraction of the limit. The fastest of
    # all launches must exceed the fraction `fastest_launch_limit_share`.
    suspicion_limit_share: float = 0.6
    confirming_launch_count: int = 3
    fastest_launch_limit_share: float = 0.75
    # Whether a case is compared with its two neighbouring payloads, not with all cases of its
    # framework.
    compares_neighbours: bool = False

    # A framework with fewer cases than `min_shared_case_count` has no shared part. In a session
    # with fewer cases than `min_case_count_for_noise`, noise cannot be told from a loss.
    min_shared_case_count: int = 6
    min_case_count_for_noise: int = 12
    # A session is noisy, and has no verdict, if its cases deviate `noisy_ratio` times as much as
    # usual (`first_noisy_ratio` times if there is only one earlier session). A session is also
    # noisy if cases deviate `min_noise_ratio_for_widening` times as much and launches differ
    # `noisy_ratio` times as much. From `min_noise_ratio_for_widening` on, limits are wider by
    # `widening_factor` times the ratio.
    noisy_ratio: float = 1.75
    first_noisy_ratio: float = 2.0
    min_noise_ratio_for_widening: float = 1.35
    widening_factor: float = 1.3
    # After this many sessions the noise is known. Then a session with wider limits is not used to
    # compute levels.
    min_session_count_for_known_noise: int = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """All thresholds of the judge for one class of devices: CPU, GPU or TPU.

    `rule` is for comparisons with stored times, `looks` for comparisons of two interleaved stacks.
    """

    rule: RuleThresholds
    looks: SequentialTestThresholds
    # Whether the device also does other work, which makes unchanged cases NOISY.
    has_other_work: bool = False
    # A verdict from fewer sessions is provisional.
    provisional_below_sessions: int = 3
    # If a case seems slower, its confirming launches begin this many seconds after the first ones.
    confirmation_delay_s: float = 0.0
    # A smaller difference in seconds is not a regression if the host's clock measured it.
    host_clock_resolution_s: float = 3e-6
    # Sessions that began within this time of each other count as one session, because they share
    # the state of the machine.
    session_merge_time: timedelta = timedelta(hours=1)
    # Accepted losses may add up to this fraction of the pinned time before a reason is required,
    # because losses too small for any verdict add up. A tenth of the bandwidth matters to users,
    # and is still more than the limit of one comparison for most payloads.
    budget: float = 0.10

    def least_visible_difference_s(self, clock: Clock) -> float:
        """Return the least difference of two times, in seconds, that `clock` can show reliably.

        The result is 0 for the clock of a device, because such a clock is exact enough.
        """
        return 0.0 if clock is Clock.DEVICE else self.host_clock_resolution_s


# A CPU that also does other work. With a single earlier session, a case is detected if it takes
# twice the time, relative to the part that it shares with other cases (docs/quiet.md has figures).
_CPU = Policy(
    looks=SequentialTestThresholds(),
    # Neighbouring payloads show what other work does to a case, and the fastest launch must be
    # slower, too. Relative to its neighbours, a case differs by a tenth between sessions, and not
    # normally. The factor `case_sigmas` is still small, because a loss is confirmed in three ways.
    # `max_launch_degrees_of_freedom` is 0, because launches do not show how noisy a case is.
    rule=RuleThresholds(
        min_case_loss=0.15,
        min_session_loss=1.50,
        max_useful_limit=3.0,
        prior_stddev=0.115,
        prior_shared_stddev=0.25,
        prior_degrees_of_freedom=60.0,
        max_prior_session_count=math.inf,
        min_session_to_launch_variance_ratio=0.3,
        anchor_margin=0.10,
        max_launch_degrees_of_freedom=0.0,
        case_sigmas=2.75,
        case_sigmas_over_sessions=0.0,
        window_sigmas_over_sessions=0.0,
        shared_sigmas=2.5,
        heavy_tail_sigmas=math.inf,
        compares_neighbours=True,
        fastest_launch_limit_share=1.0,
        min_case_count_for_noise=sys.maxsize,
    ),
    # Of the recorded sessions of unchanged code on a busy machine, 16 to 30 % have more than a
    # tenth of their cases NOISY, and 9 to 20 % have more than a tenth of their cases above their
    # limits. All of these sessions would be red without a reason.
    has_other_work=True,
    # Other work that lasts longer than a few launches is mostly over after a minute.
    confirmation_delay_s=60.0,
    # Half of the deviation that noise alone can cause in a session. Twenty accepted losses of 2 %
    # would add up to 49 %.
    budget=0.25,
)

# A dedicated accelerator. In published calibrations, sessions of unchanged code differ by 0.5 to
# 1 %.
_ACCELERATOR = Policy(
    looks=SequentialTestThresholds(detectable_loss=0.03, min_loss=0.01),
    rule=RuleThresholds(
        min_case_loss=0.02,
        min_session_loss=0.015,
        max_useful_limit=0.5,
        prior_stddev=0.01,
        prior_shared_stddev=0.006,
    ),
)

POLICIES: Mapping[DeviceClass, Policy] = {
    DeviceClass.CPU: _CPU,
    DeviceClass.GPU: _ACCELERATOR,
    DeviceClass.TPU: _ACCELERATOR,
}
