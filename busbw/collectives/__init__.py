"""The collectives, each in a file of this folder, which this module imports.

The class of a collective has its byte counts, its busbw factor, its exact values, and its name in
programs. The worker writes and checks values with this package, and the parent process computes
payloads and rates. The package needs only the standard library of Python 3.11, and knows no
framework, file or clock.
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
    for kind in sorted(AbstractCollective.__subclasses__(), key=lambda kind: kind.name)
}

REDUCE_OPS = ("sum", "max", "min")
