"""What all hosts show in one launch: single chips that are slow, and who the others wait for.

What one launch happens to have is not the chip's, nor the host's: named is what two name alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.model.case import Spec

from .answer import Answer, is_late
from .chips import losses_named, slow_chips
from .groups import Groups
from .search import CHIPS_SHARE, RISK
from .waiting import waiting

# How often all hosts meet, and chips are measured.
_ROUNDS = 40


def together(answer: Answer, groups: Groups, *, least: float, waits: bool) -> Answer:
    """With what all that answer show; `waits`: the arrivals are those of real clocks."""
    first = again = _seen(answer, groups, least, waits)
    if first.chips or (first.waited and is_late(first.waited)):
        again = _seen(answer, groups, least, waits)
    named = {(one.what, one.quantity) for one in again.chips}
    chips = [one for one in first.chips if (one.what, one.quantity) in named]
    waited = again.waited
    if waited is not None and (first.waited is None or first.waited.last != waited.last):
        waited = replace(waited, p=1.0)
    return replace(again, chips=chips, waited=waited)


def _seen(answer: Answer, groups: Groups, least: float, waits: bool) -> Answer:
    alive = tuple(host for host in range(len(answer.names)) if host not in answer.found.dead)
    found = groups.together(alive, _largest(groups.specs), _ROUNDS)
    if found.lost is not None:
        dead = {**answer.found.dead, alive[found.lost]: found.why}
        answer = replace(answer, found=replace(answer.found, dead=dead))
    hosts = [answer.names[host] for host in alive]
    if not answer.found.times_s:
        # They met in no pairs: this is all that there is.
        losses = losses_named(found.chips, hosts, least)
        answer = replace(answer, found=replace(answer.found, rounds=groups.rounds, least=losses))
    return replace(
        answer,
        chips=slow_chips(found.chips, hosts, least, RISK * CHIPS_SHARE) if found.chips else (),
        waited=waiting(found.arrivals, alive) if found.arrivals and waits else None,
        unmeasured=found.why,
        is_incomplete=found.is_incomplete,
    )


def _largest(specs: Sequence[Spec]) -> Spec:
    """All-reduce comes first."""
    return max(specs, key=lambda one: (one.workload.reduce_op != "none", one.payload_bytes))
