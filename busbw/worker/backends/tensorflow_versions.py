"""How old a TensorFlow may be, and what an older one cannot do: it calls nothing otherwise.

No case and no clock's reading may enter.
"""

from __future__ import annotations

import tensorflow as tf

from . import oldest

# Before it, a MirroredStrategy on the CPU was no ring, whatever was asked for.
OLDEST = "2.13"

# Before it, a recording on the CPU lacked some of the collectives that had run.
_PROFILES_ALL = "2.15"


def check() -> None:
    """Raise MeasuringError UNAVAILABLE where this TensorFlow is older than `OLDEST`."""
    oldest.check("tensorflow", tf.__version__, OLDEST)


def has_whole_profiler() -> bool:
    """Whether a recording holds every collective."""
    return not oldest.is_before(tf.__version__, _PROFILES_ALL)
