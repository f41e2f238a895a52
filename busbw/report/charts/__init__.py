"""The charts of sessions: a file each, a pure function of values that gives a Chart.

Decides what is shown, in words and figures; draws nothing and reads no file.
"""

from .bandwidth import bandwidth
from .published import PublishedCurve, PublishedPoint, published

__all__ = ["PublishedCurve", "PublishedPoint", "bandwidth", "published"]
