"""The rules: measurements and baselines in, verdicts out. Pure; every threshold is in `policy`.

Reads no file and no clock, knows no pytest; what it needs is handed in as values.
"""

from .case import Terms, judge_case, may_become_baseline, summary_of
from .policy import POLICIES, Policy, Tier
from .session import judge_session

__all__ = [
    "POLICIES",
    "Policy",
    "Terms",
    "Tier",
    "judge_case",
    "judge_session",
    "may_become_baseline",
    "summary_of",
]
