"""Lines as earlier sessions, which today is compared with. Pure: lines in, values out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from busbw.model.stored import HOST, OWN_CODE, EarlierSession
from busbw.model.words import Outcome

from .lines import Line


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Sessions of a `framework` whose times can be compared with each other.

    Measured by itself, or in turn with the locked reference `stack`, since two stacks compete for
    the machine: tonight's of then, or, where it `is_reference`, the reference's own.
    """

    framework: str
    stack: str = ""
    is_reference: bool = False

    @classmethod
    def of(cls, line: Line) -> Series:
        """The series that `line` is in, if its times say what a case takes."""
        return cls(framework=line.case.framework, stack=line.stack, is_reference=line.is_reference)

    @property
    def text(self) -> str:
        """Such as ``jax``, or ``jax in turn with the reference 0123456789abcdef``."""
        if not self.stack:
            return self.framework
        if self.is_reference:
            return f"the reference {self.stack} of {self.framework}"
        return f"{self.framework} in turn with the reference {self.stack}"


def earlier(lines: Iterable[Line], series: Series) -> list[EarlierSession]:
    """What the sessions of `series` measured, in the order of their lines.

    Without what was made slower on purpose, and without sides of two stacks of which none is
    locked.
    """
    by_session: dict[str, list[Line]] = {}
    for line in lines:
        if line.is_level and Series.of(line) == series:
            by_session.setdefault(line.session, []).append(line)
    return [_session(own) for own in by_session.values()]


def _session(lines: list[Line]) -> EarlierSession:
    first = lines[0]
    return EarlierSession(
        began=first.began,
        times_s={
            line.case.case: tuple(time_us / 1e6 for time_us in line.times_us) for line in lines
        },
        regressed=frozenset(line.case.case for line in lines if line.outcome is Outcome.REGRESSED),
        improved=frozenset(line.case.case for line in lines if line.outcome is Outcome.IMPROVED),
        surroundings={
            **first.versions,
            **first.flags,
            HOST: first.host,
            OWN_CODE: first.worker,
        },
    )
