"""The rules: measurements and baselines in, verdicts out. Pure; every threshold is in `policy`.

Reads no file and no clock, knows no pytest; what it needs is handed in as values.
"""

from .case import Ruling, Terms, judge_case, may_become_baseline, summary_of
from .ceilings import with_ceiling
from .compiled import (
    COMPILE_POLICY,
    CompilePolicy,
    CompileTerms,
    judge_compiled,
    judge_compiled_session,
)
from .curve import Curve, Shift, SizeShift, fit, shift_of
from .paired import judge_pair
from .policy import POLICIES, Policy, Tier
from .regression_shape import LocatedRegression, curve_shift, locate
from .rerun_policy import Rerun, rerun
from .sequential_test import Looks
from .session import Circumstances, judge_session
from .shift import Moved, differences, environment_shift, moved
from .size_groups import SizeGroup, groups_of_cases

__all__ = [
    "COMPILE_POLICY",
    "POLICIES",
    "Circumstances",
    "CompilePolicy",
    "CompileTerms",
    "Curve",
    "LocatedRegression",
    "Looks",
    "Moved",
    "Policy",
    "Rerun",
    "Ruling",
    "Shift",
    "SizeGroup",
    "SizeShift",
    "Terms",
    "Tier",
    "curve_shift",
    "differences",
    "environment_shift",
    "fit",
    "groups_of_cases",
    "judge_case",
    "judge_compiled",
    "judge_compiled_session",
    "judge_pair",
    "judge_session",
    "locate",
    "may_become_baseline",
    "moved",
    "rerun",
    "shift_of",
    "summary_of",
    "with_ceiling",
]
