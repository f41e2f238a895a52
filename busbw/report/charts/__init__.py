"""The charts of sessions and histories, a file each: what is shown; draws and reads nothing."""

from .bandwidth import PublishedCurve, PublishedPoint, bandwidth, comparison, published
from .case_history import case_history
from .curves import Curve, bare_curves
from .durations import steps, strategies
from .memory import memory
from .ratios import ratios
from .spread import launch_table, launches, member_table, processes, ranks

__all__ = [
    "Curve",
    "PublishedCurve",
    "PublishedPoint",
    "bandwidth",
    "bare_curves",
    "case_history",
    "comparison",
    "launch_table",
    "launches",
    "member_table",
    "memory",
    "processes",
    "published",
    "ranks",
    "ratios",
    "steps",
    "strategies",
]
