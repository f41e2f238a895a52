"""Lines as earlier sessions, which today is compared with. Pure: lines in, values out."""

from __future__ import annotations

from collections.abc import Iterable

from busbw.model import EarlierSession, Outcome

from .lines import Line


def earlier(lines: Iterable[Line], framework: str) -> list[EarlierSession]:
    """What sessions measured of the cases of `framework`, in the order of their lines.

    Without what was made slower on purpose, and without sides of two stacks measured in turn,
    which compete for the machine.
    """
    by_session: dict[str, list[Line]] = {}
    for line in lines:
        if line.is_level and line.case.framework == framework:
            by_session.setdefault(line.session, []).append(line)
    return [_session(own) for own in by_session.values()]


def of_reference(
    lines: Iterable[Line], framework: str, *, stack: str, worker: str
) -> list[EarlierSession]:
    """What earlier nights measured of a reference stack in turn with tonight's of then.

    Only with the code of ours that measures now: a change of it is none of the machine.
    """
    by_session: dict[str, list[Line]] = {}
    for line in lines:
        is_its = (line.stack, line.worker) == (stack, worker) and line.case.framework == framework
        if line.is_reference and line.times_us and is_its:
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
        surroundings={**first.versions, **first.flags, "host": first.host},
    )
