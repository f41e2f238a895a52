"""Options to Specs, and Specs to Cases on the machine that a probe found.

Pure: values in, values out. Asks no hardware and starts no process.
"""

from busbw.collectives import COLLECTIVES, DTYPES, REDUCE_OPS

from .grid import FRAMEWORKS, STRATEGIES, Asked, GridError, specs
from .target import AUTO_ORDER, Target, choose_target, resolve, resolve_on

__all__ = [
    "AUTO_ORDER",
    "COLLECTIVES",
    "DTYPES",
    "FRAMEWORKS",
    "REDUCE_OPS",
    "STRATEGIES",
    "Asked",
    "GridError",
    "Target",
    "choose_target",
    "resolve",
    "resolve_on",
    "specs",
]
