"""One change of baselines, drafted and written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from busbw.baselines.store import open_draft

T = TypeVar("T")


def written(act: Callable[..., T], root: Path, *values: Any, **options: Any) -> T:
    """Return what `act`, such as `baselines.save`, returns; write its change below `root`."""
    with open_draft(root) as draft:
        return act(draft, *values, **options)
