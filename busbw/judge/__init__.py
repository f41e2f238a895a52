"""The rules: measurements and baselines in, verdicts out. Pure; every threshold is in `policy`.

Reads no file and no clock, knows no pytest; what it needs is handed in as values.
"""

from .case import Judged, Terms, judge_case, may_become_baseline, summary_of
from .further import Further, further
from .paired import judge_pair
from .policy import POLICIES, Policy, Tier
from .sequence import Looks
from .session import Circumstances, judge_session
from .shift import Moved, differences, moved, shift_of

__all__ = [
    "POLICIES",
    "Circumstances",
    "Further",
    "Judged",
    "Looks",
    "Moved",
    "Policy",
    "Terms",
    "Tier",
    "differences",
    "further",
    "judge_case",
    "judge_pair",
    "judge_session",
    "may_become_baseline",
    "moved",
    "shift_of",
    "summary_of",
]
