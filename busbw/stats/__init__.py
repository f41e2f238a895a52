"""Numbers in, numbers out: samples, launches and sessions, each formula once.

Judges nothing and knows no threshold: those are arguments.
"""

from .change_points import change_points
from .components import CaseLevel, Components, Expected, Segment, components, components_of
from .estimate import Estimate, of_launches, shift_of_samples
from .samples import (
    LAUNCH_QUANTILE,
    launch_time_s,
    quantile,
    quantiles_s,
    relative_mad,
    robust_deviation,
)
from .shared import Neighbours, local_part, shared_part
from .spending import look_levels, spent
from .t_distribution import t_quantile, t_tail
from .variance import (
    Variance,
    moderated,
    prior_variance,
    successive_variance,
    summed,
    trigamma,
    variance_of,
)

__all__ = [
    "LAUNCH_QUANTILE",
    "CaseLevel",
    "Components",
    "Estimate",
    "Expected",
    "Neighbours",
    "Segment",
    "Variance",
    "change_points",
    "components",
    "components_of",
    "launch_time_s",
    "local_part",
    "look_levels",
    "moderated",
    "of_launches",
    "prior_variance",
    "quantile",
    "quantiles_s",
    "relative_mad",
    "robust_deviation",
    "shared_part",
    "shift_of_samples",
    "spent",
    "successive_variance",
    "summed",
    "t_quantile",
    "t_tail",
    "trigamma",
    "variance_of",
]
