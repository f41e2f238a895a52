"""Starts, feeds, times out and kills workers. Knows no framework, no pytest and no verdict.

It never imports the worker: it hands a foreign interpreter a private folder and starts it.
"""

from .alone import BusyError, alone
from .bundle import Bundle
from .compiling import Compiling, Job, cache_folder
from .duel import Duel, Side
from .endings import Ended, failure_of
from .group import Answers, Group, LocalStart, Start
from .passes import Progress
from .places import Place, Role, local_places, roles_of
from .probe import ProbeCutShort, ProbeFailed, probe
from .process import Starter, Worker
from .sweep import Sweep
from .training import train

__all__ = [
    "Answers",
    "Bundle",
    "BusyError",
    "Compiling",
    "Duel",
    "Ended",
    "Group",
    "Job",
    "LocalStart",
    "Place",
    "ProbeCutShort",
    "ProbeFailed",
    "Progress",
    "Role",
    "Side",
    "Start",
    "Starter",
    "Sweep",
    "Worker",
    "alone",
    "cache_folder",
    "failure_of",
    "local_places",
    "probe",
    "roles_of",
    "train",
]
