"""Numbers in, numbers out: samples, launches and sessions, each formula once.

Judges nothing and knows no threshold: those are arguments.
"""

from .change_points import Change, changes_of
from .launches import (
    LAUNCH_QUANTILE,
    Estimate,
    launch_time_s,
    of_launches,
    quantile,
    quantiles_s,
    relative_mad,
    shift_of_samples,
)
from .spending import look_levels, spent
from .t_distribution import t_quantile, t_tail
from .variance import (
    Variance,
    moderated,
    prior_variance,
    squares_of,
    successive_variance,
    trigamma,
    variance_of,
)

__all__ = [
    "LAUNCH_QUANTILE",
    "Change",
    "Estimate",
    "Variance",
    "changes_of",
    "launch_time_s",
    "look_levels",
    "moderated",
    "of_launches",
    "prior_variance",
    "quantile",
    "quantiles_s",
    "relative_mad",
    "shift_of_samples",
    "spent",
    "squares_of",
    "successive_variance",
    "t_quantile",
    "t_tail",
    "trigamma",
    "variance_of",
]
