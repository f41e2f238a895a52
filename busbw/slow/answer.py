"""The answer in words, as a table, as a document, and as a list of hosts without those it names."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from busbw.model.words import plural, seconds_text
from busbw.report.table import Column, Table, rows_of

from .fit import Racks
from .rounds import Group
from .search import RISK, Accused, Found
from .waiting import Waiting

DOCUMENT = "busbw find-slow 1"
# What is shared is slow, and no link, where a pair alone loses less than half of what it does else.
_SHARED = 0.5
# Who comes last is named where that costs more than this share of the transfer.
_LATE = 0.05


def sentences(found: Found, names: Sequence[str], waited: Waiting | None = None) -> Iterator[str]:
    for one in found.accused:
        yield _accused(one, names)
    for host, why in sorted(found.dead.items()):
        yield f"host {names[host]}: no answer, with several partners: {why}"
    for quantity, racks in found.racks.items():
        yield _racks(quantity, racks, names)
    if waited is not None:
        yield _waiting(waited, names)
    for who in found.undecided:
        yield f"{_name(who, names)}: undecided, which more rounds might settle"
    if not is_anybody(found):
        healthy = f"a healthy cluster is accused once in {1 / RISK:g} times at most"
        yield f"nobody is slow: {_least(found)}; {healthy}"


def is_anybody(found: Found) -> bool:
    """Whether somebody is named: slow, or without an answer, or a rack that is far by itself."""
    far = [one for one in found.racks.values() if not _is_shared(one.ratio, one.alone)]
    return bool(found.accused or found.dead or far)


def table(found: Found, names: Sequence[str]) -> Table:
    """What each host takes in its pairs over what the others take, by quantity."""
    named = {host for one in found.accused for host in one.who} | set(found.dead)
    columns = (
        Column("host", "host", left=True, fits=True),
        *(Column(one, one, text="{:.2f}".format, fits=True, gap=2) for one in found.fits),
        Column("named", "", left=True, gap=2),
    )
    rows = (
        {
            "host": name,
            **{quantity: _ratio(fit.hosts, host) for quantity, fit in found.fits.items()},
            "named": "*" if host in named else None,
        }
        for host, name in enumerate(names)
    )
    return Table(columns=columns, rows=rows_of(rows))


def document(
    found: Found, names: Sequence[str], waited: Waiting | None = None, **about: Any
) -> dict[str, Any]:
    """As JSON: `about` is what else is known of the session."""

    def hosts(who: Group) -> list[str]:
        return [names[host] for host in who]

    return {
        "document": DOCUMENT,
        **about,
        "hosts": list(names),
        "rounds": found.rounds,
        "accused": [
            {
                "hosts": hosts(one.who),
                "quantity": one.quantity,
                "ratio": one.ratio,
                "p": one.p,
                "alone": one.alone,
            }
            for one in found.accused
        ],
        "dead": {names[host]: why for host, why in found.dead.items()},
        "undecided": [hosts(one) for one in found.undecided],
        "racks": {
            quantity: {
                "hosts": [hosts(rack) for rack in one.hosts],
                "ratio": one.ratio,
                "alone": one.alone,
            }
            for quantity, one in found.racks.items()
        },
        "waiting": dataclasses.asdict(waited) if waited else None,
        "least": dict(found.least),
        "groups": [
            {"hosts": hosts(group), "seconds": dict(times)}
            for group, times in found.times_s.items()
        ],
    }


def good(found: Found, names: Sequence[str]) -> list[str]:
    """The hosts without those that are named; of a link, without its second one."""
    left_out = {one.who[-1] for one in found.accused} | set(found.dead)
    return [name for host, name in enumerate(names) if host not in left_out]


def _waiting(waited: Waiting, names: Sequence[str]) -> str:
    clocks = f"clocks {_ms(waited.offset_s)} apart, known to {_ms(waited.error_s)}"
    what = f"of {waited.rounds} collectives of all hosts"
    text = f"{what}: {_ms(waited.transfer_s)} of transfer"
    if not waited.is_late(RISK, _LATE):
        most = _ms(max(waited.waited_s))
        return f"{text}, up to {most} of waiting, for nobody in particular; {clocks}"
    times = f"last in {waited.times}, {_ms(waited.late_s)} after the others"
    return f"host {names[waited.last]} comes {times} (p <= {waited.p:.1g}), {text}; {clocks}"


def _ms(seconds: float) -> str:
    return seconds_text(seconds, 2)


def _accused(one: Accused, names: Sequence[str]) -> str:
    sure = f"p <= {one.p:.1g}"
    if len(one.who) == 1:
        return f"{_name(one.who, names)}: {one.quantity} takes {one.ratio:.2f} x as long ({sure})"
    text = f"{_name(one.who, names)}: {1 / one.ratio:.2f} of the others' speed in {one.quantity}"
    alone = f"; {one.alone:.2f} x as long alone" if one.alone else ""
    shared = ": what it shares with others is slow" if _is_shared(one.ratio, one.alone) else ""
    return f"{text} ({sure}){alone}{shared}"


def _racks(quantity: str, racks: Racks, names: Sequence[str]) -> str:
    sets = " | ".join(", ".join(names[host] for host in rack) for rack in racks.hosts)
    text = f"{sets}: between them {quantity} takes {racks.ratio:.2f} x as long as within"
    if racks.alone is None:
        return text
    shared = _is_shared(racks.ratio, racks.alone)
    why = "they share what connects them" if shared else "they are far from each other"
    return f"{text}, {racks.alone:.2f} x while nobody else is measured: {why}"


def _is_shared(ratio: float, alone: float | None) -> bool:
    return alone is not None and math.log(alone) < _SHARED * math.log(ratio)


def _least(found: Found) -> str:
    losses = ", ".join(f"{100 * loss:.0f} % in {name}" for name, loss in found.least.items())
    return f"a loss of {losses} would have been named" if losses else "nothing was measured twice"


def _name(who: Group, names: Sequence[str]) -> str:
    kind = "host" if len(who) == 1 else "link"
    return f"{kind} {' - '.join(names[host] for host in who)}"


def _ratio(logs: Mapping[int, float], host: int) -> float | None:
    return math.exp(logs[host]) if host in logs else None


def opening(names: Sequence[str], rounds: int) -> str:
    return f"{plural(len(names), 'host')}, {plural(rounds, 'round')}"
