"""The rules: measurements and baselines in, verdicts out. Pure; every threshold is in `policy`.

Reads no file and no clock, knows no pytest; what it needs is handed in as values.
"""

from .case import Rerun, Ruling, Terms, judge_case, may_become_baseline, rerun, summary_of
from .compiled import (
    COMPILE_POLICY,
    CompilePolicy,
    CompileTerms,
    judge_compiled,
    judge_compiled_session,
)
from .curve import Curve, Shift, SizeShift, fit, shift_of
from .paired import judge_pair
from .policy import POLICIES, Looks, Policy, Tier
from .regression_shape import LocatedRegression, curve_shift, locate
from .session import (
    Circumstances,
    Moved,
    SizeGroup,
    differences,
    environment_shift,
    groups_of_cases,
    judge_session,
    moved,
)
from .validity import with_ceiling

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
