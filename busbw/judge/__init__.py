"""The rules: measurements and baselines in, verdicts out. Pure; every threshold is in `policy`.

Reads no file and no clock, and knows no pytest; what it needs are arguments.
"""

from .case import Ruling, Terms, judge_case, may_become_baseline, rerun, summary_of
from .compiled import CompileTerms, judge_compiled, judge_compiled_session
from .curve import Curve, fit
from .paired import judge_pair
from .policy import POLICIES
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
    "POLICIES",
    "Circumstances",
    "CompileTerms",
    "Curve",
    "Moved",
    "Ruling",
    "SizeGroup",
    "Terms",
    "differences",
    "environment_shift",
    "fit",
    "groups_of_cases",
    "judge_case",
    "judge_compiled",
    "judge_compiled_session",
    "judge_pair",
    "judge_session",
    "may_become_baseline",
    "moved",
    "rerun",
    "summary_of",
    "with_ceiling",
]
