"""What is known of each collective from elsewhere: a file each, found by being in this folder.

`once` is one round over what all ranks hold, done in the plainest way there is. `bus_factor` of n
ranks is that of nccl-tests (PERFORMANCE.md), which it divides S/t by. `INPUT_OF_FOUR` and
`OUTPUT_OF_FOUR` are the parts of the payload that one rank of four puts in and gets. A collective
with a root, which begins with its result, names it: `ROOT`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

# What a rank holds, flat.
Buffer = list[float]
Reduce = Callable[[Sequence[float]], float]

KNOWN: Mapping[str, ModuleType] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}")
    for module in pkgutil.iter_modules(__path__)
}
