"""How old a TensorFlow may be, and what an older one cannot do: it calls nothing otherwise.

No case and no clock's reading may enter.
"""

from __future__ import annotations

import platform

import numpy as np
import tensorflow as tf

from .. import version_check

# Before it, a MirroredStrategy on the CPU was no ring, whatever was asked for.
OLDEST = "2.13"

# Before it, a recording on the CPU lacked some of the collectives that had run.
_PROFILES_ALL = "2.15"


def check() -> None:
    """Raise MeasuringError UNAVAILABLE where this TensorFlow is older than `OLDEST`."""
    version_check.check("tensorflow", tf.__version__, OLDEST)


def has_whole_profiler() -> bool:
    """Whether a recording holds every collective."""
    return not version_check.is_before(tf.__version__, _PROFILES_ALL)


def of_packages() -> dict[str, str]:
    """The versions of Python and of the packages that decide what TensorFlow does."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "tensorflow": tf.__version__,
    }
