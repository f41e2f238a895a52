"""The workloads: a file each, found by being in this folder.

What a rank runs, what of it is timed, its names, its case on a machine. How a framework runs it is
in the back ends. Standard library only, Python 3.11: workers import it too.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from busbw.model.workload import Workload

for _one in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_one.name}")

WORKLOADS: Mapping[str, type[Workload]] = {one.kind: one for one in Workload.__subclasses__()}
