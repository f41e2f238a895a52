"""Every rule that is replayed, by the name that its row has: busbw's own first.

A registry and nothing else. A rule is any `Callable[[Draw], Outcome]` (`draw.py` has both); its
docstring stands below the table.
"""

from __future__ import annotations

from collections.abc import Mapping

from .draw import Rule
from .others import OTHERS
from .own import Paired, Stored

OWN: Mapping[str, Rule] = {
    "busbw `--against`, in turn": Paired(),
    "busbw, stored baseline": Stored(),
}

RULES: Mapping[str, Rule] = {**OWN, **OTHERS}
