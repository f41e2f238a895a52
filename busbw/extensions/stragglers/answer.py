"""The answer in words, as a table, as a document, and as a list of hosts without those it names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from busbw.model.words import plural, seconds_text
from busbw.report.table import Column, Table, rows_of

from .chips import SlowChip
from .fit import Racks
from .rounds import Group
from .search import LATE_SHARE, RISK, Accused, Found
from .waiting import Waiting

DOCUMENT = "busbw find-slow 1"
# What is shared is slow, and no link, where a pair alone loses less than half of what it does else.
_SHARED = 0.5
# Who comes last is named where that costs more than this share of the transfer.
_LATE = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What was `found` of the hosts with these `names`, of single chips, and who waits for whom.

    `unmeasured` is why some of the latter is not known, which makes the answer `is_incomplete`
    unless the framework cannot measure it; `earlier` are documents of sessions before, the latest
    last.
    """

    found: Found
    names: Sequence[str]
    chips: Sequence[SlowChip] = ()
    waited: Waiting | None = None
    unmeasured: str = ""
    is_incomplete: bool = False
    earlier: Sequence[Mapping[str, Any]] = ()

    @property
    def opening(self) -> str:
        return f"{plural(len(self.names), 'host')}, {plural(self.found.rounds, 'round')}"

    def sentences(self) -> Iterator[str]:
        for one in self.found.accused:
            yield f"{_accused(one, self.names)}{self._since(one)}"
        yield from _silent(self.found, self.names)
        for chip in self.chips:
            what = f"{chip.what}: {chip.quantity} takes"
            yield f"{what} {chip.ratio:.2f} x as long as the others' (p <= {chip.p:.1g})"
        for quantity, racks in self.found.racks.items():
            yield _racks(quantity, racks, self.names)
        if self.waited is not None:
            yield _waiting(self.waited, self.names)
        if self.unmeasured:
            yield f"single chips, or who comes last, were not measured: {self.unmeasured}"
        for who in self.found.undecided:
            yield f"{_name(who, self.names)}: undecided, which more rounds might settle"
        if not self.is_anybody:
            healthy = f"a healthy cluster is accused once in {1 / RISK:g} times at most"
            word = "named" if self.found.undecided or self.is_incomplete else "slow"
            yield f"nobody is {word}: {_least(self.found)}; {healthy}"
        if self.found.fits and not any(fit.links for fit in self.found.fits.values()):
            rounds = plural(len(self.names) - 1, "round")
            yield f"links were not looked for, as hosts met in groups: --pairs does, in {rounds}"

    @property
    def is_anybody(self) -> bool:
        """Whether somebody is named: slow, late, silent, or a rack that is far by itself."""
        racks = self.found.racks.values()
        far = [one for one in racks if not _is_shared(one.ratio, one.alone)]
        silent = self.found.dead or self.found.cut
        return bool(self.found.accused or silent or far or self.chips or self._late)

    @property
    def _late(self) -> set[int]:
        """The host that the others wait for."""
        return {self.waited.last} if self.waited is not None and is_late(self.waited) else set()

    def table(self) -> Table:
        """What each host takes in its pairs over what the others take, by quantity."""
        fits, names = self.found.fits, self.names
        there = [*(one.who for one in self.found.accused), *self.found.cut]
        named = {names[host] for who in there for host in who}
        named |= {names[host] for host in (*self.found.dead, *self._late)}
        named |= {one.host for one in self.chips}
        columns = (
            Column("host", "host", left=True, fits=True),
            *(Column(one, one, text="{:.2f}".format, fits=True, gap=2) for one in fits),
            Column("named", "", left=True, gap=2),
        )
        rows = (
            {
                "host": name,
                **{quantity: _ratio(fit.hosts, host) for quantity, fit in fits.items()},
                "named": "*" if name in named else None,
            }
            for host, name in enumerate(names)
        )
        return Table(columns=columns, rows=rows_of(rows))

    def document(self, **about: Any) -> dict[str, Any]:
        """As JSON: `about` is what else is known of the session. Hosts are by name."""
        found = self.found
        return {
            "document": DOCUMENT,
            **about,
            "hosts": list(self.names),
            "rounds": found.rounds,
            "accused": [
                {"hosts": self._hosts(one.who), **_without_who(one)} for one in found.accused
            ],
            "dead": {self.names[host]: why for host, why in found.dead.items()},
            "cut": [{"hosts": self._hosts(one), "why": why} for one, why in found.cut.items()],
            "chips": [asdict(one) for one in self.chips],
            "racks": {
                quantity: {**asdict(one), "hosts": [self._hosts(rack) for rack in one.hosts]}
                for quantity, one in found.racks.items()
            },
            "waiting": self.waited
            and {**asdict(self.waited), "last": self.names[self.waited.last]},
            "unmeasured": self.unmeasured,
            "undecided": [self._hosts(one) for one in found.undecided],
            "least": dict(found.least),
            "groups": [
                {"hosts": self._hosts(group), "seconds": dict(times)}
                for group, times in found.times_s.items()
            ],
        }

    def good(self) -> list[str]:
        """The hosts without those that are named; of a link, without its second one."""
        left_out = {one.who[-1] for one in self.found.accused} | {*self.found.dead, *self._late}
        left_out |= {link[-1] for link in self.found.cut}
        chips = {one.host for one in self.chips}
        return [
            name
            for host, name in enumerate(self.names)
            if host not in left_out and name not in chips
        ]

    def metrics(self) -> str:
        """In the text format of Prometheus: who is named, and the times of all groups."""
        from prometheus_client import CollectorRegistry, Gauge, generate_latest

        registry = CollectorRegistry()
        gauge = partial(Gauge, registry=registry)
        gauge("busbw_slow_anybody", "1 where somebody is named").set(self.is_anybody)
        named = gauge("busbw_slow_ratio", "time over the others'", ("who", "quantity"))
        for one in self.found.accused:
            named.labels(_name(one.who, self.names), one.quantity).set(one.ratio)
        for chip in self.chips:
            named.labels(chip.what, chip.quantity).set(chip.ratio)
        dead = gauge("busbw_slow_silent", "1 for a host that does not answer", ("host",))
        for host in self.found.dead:
            dead.labels(self.names[host]).set(1)
        cut = gauge("busbw_slow_cut", "1 for a link without an answer", ("link",))
        for link in self.found.cut:
            cut.labels(_name(link, self.names)).set(1)
        late = gauge("busbw_slow_late_seconds", "after the others, the median", ("host",))
        if self.waited is not None:
            for host in self._late:
                late.labels(self.names[host]).set(self.waited.late_s)
        taken = gauge("busbw_slow_seconds", "of a group", ("hosts", "quantity"))
        for group, times in self.found.times_s.items():
            for quantity, time_s in times.items():
                taken.labels(" ".join(self._hosts(group)), quantity).set(time_s)
        return generate_latest(registry).decode()

    def _since(self, one: Accused) -> str:
        """Since which of the earlier answers it has been named in every one, if in the last."""
        hosts, since = self._hosts(one.who), ""
        for document in reversed(self.earlier):
            if hosts not in [found.get("hosts") for found in document.get("accused", ())]:
                break
            since = str(document.get("date", ""))
        return f"; named since {since}" if since else ""

    def _hosts(self, who: Group) -> list[str]:
        return [self.names[host] for host in who]


def _silent(found: Found, names: Sequence[str]) -> Iterator[str]:
    for host, why in sorted(found.dead.items()):
        yield f"host {names[host]}: no answer, with several partners: {why}"
    for link, why in sorted(found.cut.items()):
        yield f"{_name(link, names)}: no answer, though both hosts answer others: {why}"


def _without_who(one: Accused) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if name != "who"}


def is_late(waited: Waiting) -> bool:
    return waited.is_late(RISK * LATE_SHARE, _LATE)


def _waiting(waited: Waiting, names: Sequence[str]) -> str:
    clocks = f"clocks {_ms(waited.offset_s)} apart, known to {_ms(waited.error_s)}"
    what = f"of {waited.rounds} collectives of all hosts"
    text = f"{what}: {_ms(waited.transfer_s)} of transfer"
    if not is_late(waited):
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
