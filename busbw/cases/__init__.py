"""Options to Specs, and Specs to Cases on the machine that a probe found.

Pure: values in, values out. Asks no hardware and starts no process.
"""

from .grid import collectives_alone, specs, step_specs
from .target import AUTO_ORDER, Target, choose_target, resolve, resolve_on

__all__ = [
    "AUTO_ORDER",
    "Target",
    "choose_target",
    "collectives_alone",
    "resolve",
    "resolve_on",
    "specs",
    "step_specs",
]
