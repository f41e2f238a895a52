"""Training with parameter servers in a group of local processes: who offers, who trains.

One ParameterServerRun is made of all answers; whatever ends it, no process is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from busbw import wire
from busbw.model import (
    Failure,
    FailureKind,
    ParameterServerRun,
    ParameterServerTraining,
    Updates,
)

from .group import Start
from .training import Cast, trained

_CHIEF = {"chief": 1}


def train(
    training: ParameterServerTraining,
    start: Start,
    timeout_s: float,
    on_note: Callable[[str], None] = lambda note: None,
) -> ParameterServerRun | Failure:
    """Train in a fresh group; `timeout_s` is for the training alone."""
    answers = trained(_cast(training), training, start, timeout_s, on_note)
    if isinstance(answers, Failure):
        return answers
    runs = [
        wire.from_json(ParameterServerRun, value, role.name)
        for role, (_, value) in sorted(answers.items(), key=lambda one: one[0].index)
    ]
    if len({len(run.epochs_s) for run in runs}) > 1:
        counts = ", ".join(str(len(run.epochs_s)) for run in runs)
        message = f"the workers trained for unequal numbers of epochs: {counts}"
        return Failure(kind=FailureKind.WRONG_RESULT, message=message)
    return checked(training, merged(runs))


def _cast(training: ParameterServerTraining) -> Cast:
    """TF 2's coordinator trains by the workers, which only offer; TF 1's workers do it themselves.

    Those offer too: each is asked for its part of the graph by the others.
    """
    if training.updates is Updates.SINGLE:
        return Cast(counts=_CHIEF, training="chief")
    counts = {"worker": training.workers, "ps": training.servers}
    offering = ("worker", "ps")
    if training.updates is Updates.SYNCHRONOUS:
        return Cast(counts=counts, training="worker", offering=offering)
    return Cast(counts={**_CHIEF, **counts}, training="chief", offering=offering)


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
