"""The collectives: a file each, found by being in this folder.

Byte counts, busbw factor, exact values, names in programs. A leaf that both sides of
the worker's channel import: the worker lays out and checks values with it, the other side computes
payloads and rates. Standard library only, Python 3.11; knows no framework, no file and no clock.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from .base import AbstractCollective

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

COLLECTIVES: Mapping[str, AbstractCollective] = {
    kind.name: kind()
    for kind in sorted(
        AbstractCollective.__subclasses__(), key=lambda kind: (kind.order, kind.name)
    )
}

REDUCE_OPS = ("sum", "max", "min")
