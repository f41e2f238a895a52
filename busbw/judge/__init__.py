"""The rules: measurements and baselines in, verdicts out. Pure; every threshold is in `policy`.

Reads no file and no clock, and knows no pytest; what it needs are arguments.
"""

from .case import (
    Rerun,
    Ruling,
    StoredReference,
    Terms,
    judge_case,
    may_become_baseline,
    rerun,
    summary_of,
)
from .compiled import CompileTerms, judge_compiled, judge_compiled_session
from .curve import Curve, fit
from .drift import Drift, all_answers, drift_text, drifts, machine_answer
from .levels import Known, Levels, cost_of_limit, levels_of
from .notes import injected_ratio, injection_notes, straggler_of, with_injections
from .paired import judge_pair, prior_of_pairs
from .policy import POLICIES, Policy
from .rule import Tonight
from .session import (
    Circumstances,
    SizeGroup,
    groups_of_cases,
    judge_session,
    slower_text,
)
from .validity import with_ceiling

__all__ = [
    "POLICIES",
    "Circumstances",
    "CompileTerms",
    "Curve",
    "Drift",
    "Known",
    "Levels",
    "Policy",
    "Rerun",
    "Ruling",
    "SizeGroup",
    "StoredReference",
    "Terms",
    "Tonight",
    "all_answers",
    "cost_of_limit",
    "drift_text",
    "drifts",
    "fit",
    "groups_of_cases",
    "injected_ratio",
    "injection_notes",
    "judge_case",
    "judge_compiled",
    "judge_compiled_session",
    "judge_pair",
    "judge_session",
    "levels_of",
    "machine_answer",
    "may_become_baseline",
    "prior_of_pairs",
    "rerun",
    "slower_text",
    "straggler_of",
    "summary_of",
    "with_ceiling",
    "with_injections",
]
