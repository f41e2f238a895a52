"""One change of baselines, drafted and written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from busbw.baselines.files import open_draft

T = TypeVar("T")


def written(act: Callable[..., T], root: Path, *of: Any, **asked: Any) -> T:
    """What `act`, such as `baselines.save`, says of its change, which is written below `root`."""
    with open_draft(root) as draft:
        return act(draft, *of, **asked)
