"""Sessions and their history as one HTML page that loads nothing and runs no script.

`content` has the parts of a page as values, `session` and `history` decide what a page says,
`html` how it is written. Judges nothing and reads no file but its own template.
"""

from __future__ import annotations

from collections.abc import Sequence

from busbw.model.words import plural
from busbw.report.reading import CompiledSession, Session

from .bandwidth import bandwidth
from .content import Figure, Page, Part, Section
from .history import machine_sections, since_when
from .nights import MachineNights
from .session import compiled_parts, compiled_sections, session_parts, session_sections

AnySession = Session | CompiledSession


def page(sessions: Sequence[AnySession], machines: Sequence[MachineNights] = ()) -> Page:
    history = machine_sections(machines)
    if len(sessions) == 1:
        parts, within = _content(sessions[0], history, since_when(sessions[0].verdicts, machines))
        return Page(title=_title(sessions[0]), parts=parts, sections=within)
    machine = machines[0].folder if len(machines) == 1 else plural(len(machines), "machine")
    title = plural(len(sessions), "session") if sessions else f"History of {machine}"
    return Page(
        title=title,
        sections=(*_together(sessions), *history, *(_whole(one) for one in sessions)),
    )


def _title(session: AnySession) -> str:
    if isinstance(session, CompiledSession):
        return "Collectives as they are compiled"
    key = session.environment.key
    names = {one.case.collective for one in session.verdicts if one.case is not None}
    what = names.pop().replace("_", "-").capitalize() if len(names) == 1 else "Collectives"
    return f"{what} on {key.device_kind}, {plural(key.ranks, 'rank')}"


def _content(
    session: AnySession, history: Sequence[Section] = (), since: Sequence[str] = ()
) -> tuple[tuple[Part, ...], tuple[Section, ...]]:
    if isinstance(session, CompiledSession):
        return compiled_parts(session), (*compiled_sections(session), *history)
    return session_parts(session), session_sections(session, history, since)


def _whole(session: AnySession) -> Section:
    parts, sections = _content(session)
    heading = f"{_title(session)}, {session.began:%Y-%m-%d %H:%M} UTC"
    return Section(heading=heading, parts=parts, sections=sections)


def _together(sessions: Sequence[AnySession]) -> tuple[Section, ...]:
    measured = [one for one in sessions if isinstance(one, Session)]
    if len(measured) < 2:
        return ()
    try:
        chart = bandwidth(measured)
    except ValueError:
        # Nothing to draw, or more than a reader can follow: each session has its own charts.
        return ()
    return (Section(heading="Bandwidth of all sessions", parts=(Figure(picture=chart),)),)
