"""Training with parameter servers in a group of local processes: who offers, who trains.

One ParameterServerRun is made of all answers; whatever ends it, no process is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw import wire
from busbw.model import (
    Failure,
    FailureKind,
    ParameterServerRun,
    ParameterServerTraining,
    Updates,
)

from .group import Group, Start
from .places import Role, local_places, roles_of
from .sweep import START_TIMEOUT_S


def train(
    training: ParameterServerTraining, start: Start, timeout_s: float
) -> ParameterServerRun | Failure:
    """Train in a fresh group; `timeout_s` is for the training alone."""
    roles = roles_of(_counts(training))
    # TF 2's coordinator trains by the workers, which only offer; TF 1's workers do it themselves.
    trainers = [role for role in roles if role.task == _trains(training)]
    with Group(local_places(roles), start) as group:
        answers = group.ready(START_TIMEOUT_S)
        if isinstance(answers, Failure):
            return answers
        offers = {role: {"request": "offer"} for role in roles if role.task != "chief"}
        answers = group.ask(offers, START_TIMEOUT_S, "offering itself to the others")
        if isinstance(answers, Failure):
            return answers
        request = {"request": "train", "training": wire.to_json(training)}
        answers = group.ask(dict.fromkeys(trainers, request), timeout_s, "training")
    if isinstance(answers, Failure):
        return answers
    runs = [
        wire.from_json(ParameterServerRun, value, role.name)
        for role, (_, value) in sorted(answers.items(), key=lambda one: _order(one[0]))
    ]
    return checked(training, merged(runs))


def _counts(training: ParameterServerTraining) -> dict[str, int]:
    if training.updates is Updates.SINGLE:
        return {"chief": 1}
    counts = {"worker": training.workers, "ps": training.servers}
    return counts if training.updates is Updates.SYNCHRONOUS else {"chief": 1, **counts}


def _trains(training: ParameterServerTraining) -> str:
    return "worker" if training.updates is Updates.SYNCHRONOUS else "chief"


def _order(role: Role) -> int:
    return role.index


def merged(runs: Sequence[ParameterServerRun]) -> ParameterServerRun:
    """One of all: gradients add up, an epoch takes as long as for the slowest.

    The rest is as the first one saw it, and counts as the one that saw most.
    """
    return replace(
        runs[0],
        epochs_s=tuple(max(times) for times in zip(*(run.epochs_s for run in runs), strict=True)),
        gradients=sum(run.gradients for run in runs),
        global_step=max(run.global_step for run in runs),
        updates=max(run.updates for run in runs),
    )


def checked(
    training: ParameterServerTraining, run: ParameterServerRun
) -> ParameterServerRun | Failure:
    """`run`, if its updates and gradients are all that there should be, and no more."""
    expected = training.expected_updates, training.steps * training.workers
    if (run.updates, run.gradients) == expected and run.global_step == run.updates:
        return run
    return Failure(
        kind=FailureKind.WRONG_RESULT,
        message=(
            f"the variables saw {run.updates} updates of {run.gradients} gradients and the global "
            f"step is {run.global_step}, expected {expected[0]} of {expected[1]}"
        ),
    )
