"""What a case's time in a launch goes to, in seconds by phase; each second counts to one phase."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass
class Phases:
    """Seconds by name; a phase within another one is not part of that. `now_s` is the clock."""

    now_s: Callable[[], float]
    spent_s: dict[str, float] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _since_s: float = 0.0

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Count what happens meanwhile to `name`."""
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def _charge(self) -> None:
        now_s = self.now_s()
        if self._open:
            name = self._open[-1]
            self.spent_s[name] = self.spent_s.get(name, 0.0) + now_s - self._since_s
        self._since_s = now_s
