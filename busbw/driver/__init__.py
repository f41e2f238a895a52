"""Starts, feeds, times out and kills workers. Knows no framework, no pytest and no verdict.

It never imports the worker: it hands a foreign interpreter a private folder and starts it.
"""

from .bundle import Bundle
from .endings import Ended, failure_of
from .probe import ProbeFailed, probe
from .process import Starter, Worker
from .sweep import Progress, Sweep

__all__ = [
    "Bundle",
    "Ended",
    "ProbeFailed",
    "Progress",
    "Starter",
    "Sweep",
    "Worker",
    "failure_of",
    "probe",
]
