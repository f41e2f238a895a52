"""Schedules: the order of cases and of sides. One file each, found in this folder.

A schedule asks the executor and keeps the answers; it knows no framework and decides nothing.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from .base import AbstractSchedule

for _one in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_one.name}")

SCHEDULES: Mapping[str, type[AbstractSchedule]] = {
    one.name: one for one in AbstractSchedule.__subclasses__()
}
