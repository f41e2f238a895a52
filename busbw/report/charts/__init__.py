"""The charts of sessions and histories: a file each, a pure function of values.

Decides what is shown, in words and figures; draws nothing and reads no file.
"""

from .bandwidth import bandwidth
from .case_history import case_history
from .published import PublishedCurve, PublishedPoint, published
from .ratios import ratios

__all__ = ["PublishedCurve", "PublishedPoint", "bandwidth", "case_history", "published", "ratios"]
