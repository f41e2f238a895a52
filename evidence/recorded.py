"""How the corpus was recorded, from the corpus itself, and what slowdowns came out.

Lines of Markdown; knows no rule and no replay.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence

from busbw.model import payload_text

from .corpus import RecordedSession, by_injection
from .words import change, injection_text, paragraph, row


def recording_lines(sessions: Sequence[RecordedSession]) -> Iterator[str]:
    """A paragraph on the sessions and a table of the slowdowns that were asked for and got."""
    yield from paragraph(_summary(sessions))
    yield ""
    payloads = sorted({payload for session in sessions for payload in session.payloads})
    texts = [payload_text(payload) for payload in payloads]
    yield row("asked for", "sessions", *(f"got at {text}" for text in texts))
    yield "|---" * (2 + len(payloads)) + "|"
    for injection, group in by_injection(sessions).items():
        asked = injection_text(injection) if injection else "nothing"
        got = [_got_text(group, [payload]) for payload in payloads]
        yield row(asked, str(len(group)), *got)
    yield ""
    yield from paragraph(
        "*Got* is the median ratio, candidate over reference, of all pairs of samples taken right "
        "after one another."
    )


def _summary(sessions: Sequence[RecordedSession]) -> str:
    dates = sorted(session.recorded[:10] for session in sessions)
    launches = [len(session.numbers) for session in sessions]
    samples = [len(one.reference.samples_s) for session in sessions for one in session.launches]
    worlds = _listed(f"{one.framework}, {one.ranks} ranks" for one in sessions)
    return (
        f"Recorded from {dates[0]} to {dates[-1]} on {_listed(one.machine for one in sessions)}: "
        f"{len(sessions)} sessions of {worlds} "
        f"({_listed(_versions(one) for one in sessions)}), {_range(launches)} launch pairs each, "
        f"{_range(samples)} samples a launch. Load average of the machine before a session: "
        f"{_median_and_range([one.load for one in sessions])}. Wall time of a session: "
        f"{_median_and_range([one.wall_s for one in sessions])} s."
    )


def _versions(session: RecordedSession) -> str:
    return " ".join(f"{name} {version}" for name, version in sorted(session.versions.items()))


def _listed(texts: Iterable[str]) -> str:
    return "; ".join(text or "a machine not named" for text in dict.fromkeys(texts))


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"


def _median_and_range(values: Sequence[float]) -> str:
    middle = statistics.median(values)
    return f"median {middle:.3g} ({min(values):.3g} to {max(values):.3g})"


def got(group: Sequence[RecordedSession], payloads: Collection[int]) -> float | None:
    """The median ratio, candidate over reference, at `payloads`; None where none was measured."""
    ratios = [
        ratio
        for session in group
        for launch in session.launches
        if launch.payload_bytes in payloads
        for ratio in launch.ratios
    ]
    return statistics.median(ratios) if ratios else None


def _got_text(group: Sequence[RecordedSession], payloads: Collection[int]) -> str:
    ratio = got(group, payloads)
    return "" if ratio is None else change(ratio)
