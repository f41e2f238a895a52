"""The rules: measurements and baselines in, verdicts out. Pure; every threshold is in `policy`.

Reads no file and no clock, knows no pytest; what it needs is handed in as values.
"""

from .case import Judged, Terms, judge_case, may_become_baseline, summary_of
from .further import Further, further
from .groups import Group, groups_of_cases
from .paired import judge_pair
from .policy import POLICIES, Policy, Tier
from .sequence import Looks
from .session import Circumstances, judge_session
from .shift import Moved, differences, environment_shift, moved

__all__ = [
    "POLICIES",
    "Circumstances",
    "Further",
    "Group",
    "Judged",
    "Looks",
    "Moved",
    "Policy",
    "Terms",
    "Tier",
    "differences",
    "environment_shift",
    "further",
    "groups_of_cases",
    "judge_case",
    "judge_pair",
    "judge_session",
    "may_become_baseline",
    "moved",
    "summary_of",
]
