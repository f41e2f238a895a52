"""Options to Specs, and Specs to Cases on the machine that a probe found.

Pure: values in, values out. Asks no hardware and starts no process.
"""

from busbw.collectives import COLLECTIVES, DTYPES, REDUCE_OPS

from .grid import Asked, GridError, specs
from .strategies import TRAINING_STRATEGIES, NotHereError
from .target import AUTO_ORDER, Target, choose_target, resolve, resolve_on
from .training import STEP_PAYLOADS, collectives_alone, step_specs

__all__ = [
    "AUTO_ORDER",
    "COLLECTIVES",
    "DTYPES",
    "REDUCE_OPS",
    "STEP_PAYLOADS",
    "TRAINING_STRATEGIES",
    "Asked",
    "GridError",
    "NotHereError",
    "Target",
    "choose_target",
    "collectives_alone",
    "resolve",
    "resolve_on",
    "specs",
    "step_specs",
]
