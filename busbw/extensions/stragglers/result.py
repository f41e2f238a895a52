"""The result of `busbw find-slow`: its JSON fields, sentences, table and good hosts.

This module also has the note that recommends `busbw find-slow`. Sessions on several hosts print
this note when a case became slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from busbw.extensions.stragglers.groups import CHIPS_NOT_SUPPORTED
from busbw.extensions.stragglers.statistics import MeasuredComponent, Racks
from busbw.model.words import Outcome, plural, shorten_list
from busbw.report.table import Column, Table, make_rows
from busbw.session.state import JudgedSession, MeasuredSession


def recommend_find_slow(judged_session: JudgedSession) -> Iterator[str]:
    """Yield a note that recommends `busbw find-slow` after a case on several hosts became slower.

    Nothing is yielded if no case became slower, or if the session ran on a single host.
    """
    is_slower = any(v.outcome is Outcome.REGRESSED for v in judged_session.verdicts.values())
    measured_session = judged_session.observations
    if (
        is_slower
        and isinstance(measured_session, MeasuredSession)
        and measured_session.environment.key.hosts > 1
    ):
        yield "which host or link is slow: busbw find-slow, with --hosts or --cluster as here"


# The largest chance that a healthy cluster is reported. The search for slow hosts and links may use
# half of the chance, and the searches for fast pairs of hosts and for chips a quarter each.
FALSE_ALARM_RISK = 0.01
PAIRS_FALSE_ALARM_RISK = FALSE_ALARM_RISK / 2
FAST_PAIRS_FALSE_ALARM_RISK = CHIPS_FALSE_ALARM_RISK = FALSE_ALARM_RISK / 4


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreachableComponent:
    """An unreachable host, or a link that does not work though both its hosts answer other hosts.

    Attributes:
        name: The name in sentences, such as ``host a`` or ``link a - b``.
        hosts: The host, or the two hosts of the link.
        reason: The message of the last failed measurement.

    """

    name: str
    hosts: tuple[str, ...]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult:
    """The result of a search for slow hosts, links and chips among `hosts`.

    Attributes:
        hosts: The names of all hosts.
        rounds: The number of rounds that were measured.
        slow: The slow hosts and links, the slowest first, then the slow chips.
        fast: The links and chips that are much faster than most. Such links and chips are a
            warning, because most hosts may be slow then. Each quantity has at most a single link,
            its fastest.
        cleared: The hosts and links that looked slow in the first rounds, but passed their tests.
        unreachable: The unreachable hosts, and the links that do not work.
        undecided: The names of the hosts and links whose tests ended without a decision.
        racks: For each quantity that shows racks, the racks.
        detectable: For each quantity, the smallest loss that the search would have found in any
            host or chip; 0.15 is 15 %. Fewer than half of the hosts must have the loss. Links
            between hosts have quantities of their own, such as ``all-reduce 16M of a link``.
        directions: The seconds of a payload over each slow link between hosts while only one host
            sends. The first key is the names of the hosts, such as ``a - b``, and the second key is
            the direction, such as ``a to b``. Links whose directions could not be measured are left
            out.
        ratios: For each quantity and host, the time of the host divided by the median of all hosts.
        links_measured: Whether hosts were measured in pairs; False for larger groups.
        times: The seconds of each pair (or group) in the first rounds. The first key is the names
            of its hosts, such as ``a, b``, and the second key is the quantity. Empty for a TPU
            slice.
        unmeasured: The reason why chips were not measured; empty if chips were measured.

    """

    hosts: tuple[str, ...]
    rounds: int = 0
    slow: tuple[MeasuredComponent, ...] = ()
    fast: tuple[MeasuredComponent, ...] = ()
    cleared: tuple[MeasuredComponent, ...] = ()
    unreachable: tuple[UnreachableComponent, ...] = ()
    undecided: tuple[str, ...] = ()
    racks: Mapping[str, Racks] = field(default_factory=dict)
    detectable: Mapping[str, float] = field(default_factory=dict)
    directions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    ratios: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    links_measured: bool = True
    times: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    unmeasured: str = ""

    @property
    def has_slow_component(self) -> bool:
        """Whether a host, link or chip is slow or unreachable, or connections of racks are slow.

        Pairs of hosts in different racks may be slow only because many pairs use a shared
        connection, such as a switch, at once. Such a connection does not count as slow. The
        connection counts if a pair that is measured alone is slow, too.
        """
        are_racks_near = all(racks.has_shared_connection for racks in self.racks.values())
        return bool(self.slow or self.unreachable) or not are_racks_near

    @property
    def is_healthy(self) -> bool:
        """Whether everything was measured and decided, and nothing is slow, fast or unreachable.

        Fast components count, because most hosts may be slow then. Chips need not be measured if
        the framework cannot measure single chips.
        """
        is_measured = self.unmeasured in ("", CHIPS_NOT_SUPPORTED)
        return is_measured and not (self.has_slow_component or self.fast or self.undecided)

    @property
    def good_hosts(self) -> list[str]:
        """The names of the hosts that are good together: no host, link or chip of them is slow.

        Three kinds of hosts are left out: slow or unreachable hosts, hosts with a slow chip, and
        the second host of each slow or unreachable link.
        """
        bad = {slow.hosts[-1] for slow in self.slow}
        bad |= {silent.hosts[-1] for silent in self.unreachable}
        return [host for host in self.hosts if host not in bad]

    def sentences(self) -> Iterator[str]:
        """Yield the sentences that tell the user the result, first those on slow components."""
        for tested in (*self.slow, *self.fast):
            word, reason = (
                ("SLOW", "")
                if tested.ratio > 1
                else (
                    "FAST",
                    ": the hosts fall into two groups, and half of the hosts or more may be slow",
                )
            )
            text = f"{tested.quantity} takes {tested.ratio:.2f}x the median of the others"
            yield f"{word} {tested.name}: {text} (p <= {tested.p:.1g}){reason}"
        yield from map(_direction_text, self.directions, self.directions.values())
        for silent in self.unreachable:
            yield f"{silent.name}: no answer: {silent.reason}"
        for quantity, racks in self.racks.items():
            sets = " | ".join(", ".join(hosts) for hosts in racks.host_groups)
            text = f"{sets}: {quantity} takes {racks.ratio:.2f} x as long between them as within"
            if racks.alone is not None:
                reason = (
                    "share a connection"
                    if racks.has_shared_connection
                    else "are far from each other"
                )
                text += f", and {racks.alone:.2f} x by itself: they {reason}"
            yield text
        for cleared in self.cleared:
            text = f"{cleared.quantity} takes {cleared.ratio:.2f}x the median of its control pairs"
            yield (
                f"cleared {cleared.name}: {text} in {plural(cleared.rounds, 'round')}, which is "
                f"within the noise ({', '.join(shorten_list(cleared.control_pairs, 3, 'pair'))})"
            )
        if self.unmeasured:
            yield f"single chips were not measured: {self.unmeasured}"
        for name in self.undecided:
            yield f"{name}: undecided; run busbw find-slow again"
        if not self.has_slow_component:
            # Relative to a fast link or chip, most others may have lost (1 / ratio - 1).
            losses = ", ".join(
                f"{100 * loss:.0f} % in {name}"
                for name, loss in {
                    **self.detectable,
                    **{fast.quantity: 1 / fast.ratio - 1 for fast in self.fast},
                }.items()
            )
            word = "is slow" if self.is_healthy else "is known to be slow"
            yield (
                f"no host, link or chip {word}: a loss of {losses or '(nothing was measured)'} "
                "would have been found in fewer than half of the hosts; at most 1 healthy cluster "
                f"in {1 / FALSE_ALARM_RISK:g} is reported"
            )
        if not self.links_measured:
            yield "links were not measured, because hosts were measured in groups: use --pairs"

    def ratio_table(self) -> Table:
        """Return the table of `ratios`, with a row for each host and a column for each quantity."""
        columns = (
            Column("host", "host", left_aligned=True, is_fitted_to_cells=True),
            *(
                Column(name, name, text="{:.2f}".format, is_fitted_to_cells=True, gap=2)
                for name in self.ratios
            ),
        )
        rows = (
            {
                "host": host,
                **{quantity: ratios.get(host) for quantity, ratios in self.ratios.items()},
            }
            for host in self.hosts
        )
        return Table(columns=columns, rows=make_rows(rows))


def _direction_text(link: str, times_s: Mapping[str, float]) -> str:
    """Return a sentence that compares the two directions of a link, such as ``a - b``.

    `times_s` are the seconds of a payload in each direction, such as ``a to b``.
    """
    faster, slower = sorted(times_s, key=lambda direction: times_s[direction])
    return f"link {link}: {slower} takes {times_s[slower] / times_s[faster]:.2f}x {faster}"
