"""A group that trains: who is in it, who only offers itself to the others, who is asked to train.

What is trained, and what the answers mean, is for `parameter_server` and `strategies`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from busbw import wire
from busbw.model import Failure

from .group import Answers, Group, Start
from .places import local_places, roles_of
from .process import START_TIMEOUT_S
from .starting import cut_short, started_again


@dataclass(frozen=True, kw_only=True, slots=True)
class Cast:
    """How many there are of each task, such as chief 1, worker 2, ps 1; who does what.

    Those of `offering` are there for the others before those of `training` are asked to train.
    """

    counts: Mapping[str, int]
    training: str
    offering: tuple[str, ...] = ()


def trained(
    cast: Cast,
    training: Any,
    start: Start,
    timeout_s: float,
    on_note: Callable[[str], None] = lambda note: None,
) -> Answers | Failure:
    """What a fresh group of local processes answers that is asked for `training`, by role.

    `timeout_s` is for the training alone. A group of which one is cut short before that is started
    once more. Whatever ends it, no process is left.
    """
    with contextlib.ExitStack() as held:
        group = held.enter_context(_group(cast, start))
        failure = _begun(group, cast)
        if failure is not None and cut_short(failure):
            on_note(started_again(failure))
            group = held.enter_context(_group(cast, start))
            failure = _begun(group, cast)
        if failure is not None:
            return failure
        request = {"request": "train", "training": wire.to_json(training)}
        trainers = [role for role in group.members if role.task == cast.training]
        return group.ask(dict.fromkeys(trainers, request), timeout_s, "training")


def _group(cast: Cast, start: Start) -> Group:
    return Group(local_places(roles_of(cast.counts)), start)


def _begun(group: Group, cast: Cast) -> Failure | None:
    """None when all are there for each other; a Failure, and no process, if one is not."""
    answers = group.ready(START_TIMEOUT_S)
    if isinstance(answers, Failure):
        return answers
    offers = {role: {"request": "offer"} for role in group.members if role.task in cast.offering}
    answers = group.ask(offers, START_TIMEOUT_S, "offering itself to the others")
    return answers if isinstance(answers, Failure) else None
