"""Stacks to measure with: locked as they were measured, and built again from the lock.

`lock` is the file beside the baselines, `interpreter` what one has installed, `wheels` what an
index gives, kept by hash, `build` the environments. Nothing is measured or judged here.
"""

from .build import Built, all_built, built, check_buildable, prune
from .interpreter import Distribution, Installed, installed, unlockable
from .lock import SUFFIX, Lock, Package, StackError, path_of, paths_below, read
from .wheels import packages_of

__all__ = [
    "SUFFIX",
    "Built",
    "Distribution",
    "Installed",
    "Lock",
    "Package",
    "StackError",
    "all_built",
    "built",
    "check_buildable",
    "installed",
    "packages_of",
    "path_of",
    "paths_below",
    "prune",
    "read",
    "unlockable",
]
