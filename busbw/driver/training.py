"""A group that trains: who is in it, who only offers itself to the others, who is asked to train.

What is trained, and what the answers mean, is for `parameter_server` and `strategies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from busbw import wire
from busbw.model import Failure

from .group import Answers, Group, Start
from .places import local_places, roles_of
from .process import START_TIMEOUT_S


@dataclass(frozen=True, kw_only=True, slots=True)
class Cast:
    """How many there are of each task, such as chief 1, worker 2, ps 1; who does what.

    Those of `offering` are there for the others before those of `training` are asked to train.
    """

    counts: Mapping[str, int]
    training: str
    offering: tuple[str, ...] = ()


def trained(cast: Cast, training: Any, start: Start, timeout_s: float) -> Answers | Failure:
    """What a fresh group of local processes answers that is asked for `training`, by role.

    `timeout_s` is for the training alone. Whatever ends it, no process is left.
    """
    roles = roles_of(cast.counts)
    with Group(local_places(roles), start) as group:
        answers = group.ready(START_TIMEOUT_S)
        if isinstance(answers, Failure):
            return answers
        offers = {role: {"request": "offer"} for role in roles if role.task in cast.offering}
        answers = group.ask(offers, START_TIMEOUT_S, "offering itself to the others")
        if isinstance(answers, Failure):
            return answers
        request = {"request": "train", "training": wire.to_json(training)}
        trainers = [role for role in roles if role.task == cast.training]
        return group.ask(dict.fromkeys(trainers, request), timeout_s, "training")
