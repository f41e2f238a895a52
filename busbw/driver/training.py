"""Training a net in a group of local processes: who is in it, and what their answers come to.

A single process is a group of one. What members say is held against each other here: no member
can know the weights of another. Whatever ends a group, no process is left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from busbw import wire
from busbw.model import (
    CNN_BATCH,
    CNN_BYTES,
    Capability,
    Case,
    Failure,
    FailureKind,
    LaunchId,
    Net,
    Proof,
    Run,
    TrainingAnswer,
    TrainingRequest,
    TrainingRun,
    TrainingStrategy,
    plural,
)

from .bundle import Bundle
from .group import Group, LocalStart, Start
from .places import local_places, roles_of
from .process import START_TIMEOUT_S, Starter
from .starting import cut_short, started_again

_WEIGHTS = (("after the first step", "first_digests"), ("at the end", "last_digests"))


@dataclass(frozen=True, kw_only=True)
class TrainingLaunch:
    """How the group of one launch is started; `examples` is the file that is learned from."""

    starter: Starter
    bundle: Bundle
    name: LaunchId
    examples: str = ""
    on_note: Callable[[str], None] = lambda note: None

    def measure(self, case: Case, timeout_s: float) -> Run | Failure:
        """The Run of `case`, or the Failure that stands for it; it bears the launch's name."""
        starter = replace(self.starter, capability=Capability.TRAIN, ranks=case.ranks)
        start = LocalStart(starter=starter, bundle=self.bundle, launch=self.name)
        request = request_of(case, self.starter.device, self.examples)
        answer = train(request, start, timeout_s, self.on_note)
        if isinstance(answer, Failure):
            return replace(answer, launch=self.name)
        return run_of(case, answer.run, self.name)


def request_of(case: Case, device: str, examples: str) -> TrainingRequest:
    """What the processes that train for `case` are asked for."""
    strategy = TrainingStrategy(case.strategy)
    return TrainingRequest(
        net=Net.CNN,
        strategy=strategy,
        ranks=case.ranks,
        servers=1 if strategy is TrainingStrategy.PARAMETER_SERVER else 0,
        device=device or "cpu",
        examples_path=examples,
        epochs=20,
        batch=CNN_BATCH,
        unseen=297,
    )


def train(
    request: TrainingRequest,
    start: Start,
    timeout_s: float,
    on_note: Callable[[str], None] = lambda note: None,
) -> TrainingAnswer | Failure:
    """Train in a fresh group; `timeout_s` is for the training alone.

    A group of which one is cut short before that is started once more.
    """
    counts = members(request)
    with contextlib.ExitStack() as held:
        group = held.enter_context(_group(counts, start))
        failure = _begun(group)
        if failure is not None and cut_short(failure):
            on_note(started_again(failure))
            group = held.enter_context(_group(counts, start))
            failure = _begun(group)
        if failure is not None:
            return failure
        message = {"request": "train", "training": wire.to_json(request)}
        trainers = [role for role in group.members if role.task == next(iter(counts))]
        answers = group.ask(dict.fromkeys(trainers, message), timeout_s, "training")
    if isinstance(answers, Failure):
        return answers
    found = [wire.from_json(TrainingAnswer, answers[role][1], role.name) for role in trainers]
    return checked(request, found)


def members(request: TrainingRequest) -> dict[str, int]:
    """How many there are of each task, such as chief 1, worker 2, ps 1; those of the first train.

    TF 2's coordinator trains by the workers, which only offer themselves; TF 1's workers do it
    themselves, and offer too: each is asked for its part of the graph by the others.
    """
    workers = {"worker": request.ranks}
    if request.servers:
        served = {**workers, "ps": request.servers}
        return served if request.strategy is None else {"chief": 1, **served}
    several = request.strategy is TrainingStrategy.MULTI_WORKER_MIRRORED
    return workers if several else {"chief": 1}


def _group(counts: Mapping[str, int], start: Start) -> Group:
    return Group(local_places(roles_of(counts)), start)


def _begun(group: Group) -> Failure | None:
    """None when all are there for each other; a Failure, and no process, if one is not."""
    answers = group.ready(START_TIMEOUT_S)
    if isinstance(answers, Failure):
        return answers
    served = any(role.task == "ps" for role in group.members)
    offering = [role for role in group.members if served and role.task != "chief"]
    offers = {role: {"request": "offer"} for role in offering}
    answers = group.ask(offers, START_TIMEOUT_S, "offering itself to the others")
    return answers if isinstance(answers, Failure) else None


def checked(
    request: TrainingRequest, answers: Sequence[TrainingAnswer]
) -> TrainingAnswer | Failure:
    """One answer of all, if they agree in all and nothing was left out of an update."""
    if request.has_copies and not all(one.run.reductions for one in answers):
        name = request.strategy.value if request.strategy else request.name
        message = f"{name}: no reduction of gradients was found in the graph"
        return Failure(kind=FailureKind.NOT_A_COLLECTIVE, message=message)
    wrong = _miscounted(request, answers) or _unlike(request, answers)
    if wrong:
        return Failure(kind=FailureKind.WRONG_RESULT, message=wrong)
    return _merged(answers)


def _miscounted(request: TrainingRequest, answers: Sequence[TrainingAnswer]) -> str:
    """Which count is not what every member's variables must have seen; empty if none is."""
    gradients = sum(one.gradients for one in answers)
    for one in answers:
        run, steps = one.run, request.epochs * one.run.steps
        expected = steps * request.updates_of_a_step
        saw = f"the variables saw {run.updates} updates"
        if len(run.epochs_s) != request.epochs or (
            one.global_step is None and run.updates != expected
        ):
            epochs = plural(len(run.epochs_s), "epoch")
            return f"{saw} in {epochs}, expected {expected} in {request.epochs}"
        counted = "" if one.global_step is None else f" and the global step is {one.global_step}"
        if (run.updates, gradients) != (expected, steps * request.ranks) or (
            one.global_step not in (None, run.updates)
        ):
            wanted = f"expected {expected} of {steps * request.ranks}"
            return f"{saw} of {gradients} gradients{counted}, {wanted}"
    return ""


def _unlike(request: TrainingRequest, answers: Sequence[TrainingAnswer]) -> str:
    """Whose weights are others than they must be; empty if none are.

    Where each rank has weights of its own, all must be the same bit for bit.
    """
    copies = request.ranks if request.has_copies else 1
    for when, field in _WEIGHTS:
        digests = _joined([getattr(one.run, field) for one in answers])
        if len(digests) != copies:
            have = plural(len(digests), "rank")
            return f"{when} there are weights of {have}, expected of {copies}"
        (first, digest), *others = digests.items()
        for rank, other in others:
            if other != digest:
                return f"{when} the weights of {rank} are others than those of {first}"
    return ""


def _joined(digests: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {rank: digest for one in digests for rank, digest in one.items()}


def _merged(answers: Sequence[TrainingAnswer]) -> TrainingAnswer:
    """One of all: an epoch takes as long as for the slowest, reductions and gradients add up.

    The rest is as the first one saw it.
    """
    runs = [one.run for one in answers]
    kinds = dict.fromkeys(kind for run in runs for kind in run.reductions)
    run = replace(
        runs[0],
        epochs_s=tuple(max(times) for times in zip(*(run.epochs_s for run in runs), strict=True)),
        compile_s=max(run.compile_s for run in runs),
        first_digests=_joined([run.first_digests for run in runs]),
        last_digests=_joined([run.last_digests for run in runs]),
        reductions={kind: sum(run.reductions.get(kind, 0) for run in runs) for kind in kinds},
        replicas=sum(run.replicas for run in runs),
    )
    return replace(answers[0], run=run, gradients=sum(one.gradients for one in answers))


def run_of(case: Case, trained: TrainingRun, launch: LaunchId) -> Run:
    """The Run of `case`: a sample is the seconds of a step in an epoch after the first."""
    copies = len(trained.last_digests)
    return Run(
        launch=launch,
        iterations=trained.steps,
        samples_s=tuple(epoch_s / trained.steps for epoch_s in trained.epochs_s[1:]),
        compile_s=trained.compile_s,
        # Bit for bit, where there are several copies; else there is nothing to compare with.
        values_checked=copies * CNN_BYTES // 4 if copies > 1 else 0,
        proof=Proof(
            collectives=trained.reductions,
            payload_copies=0,
            algorithm=case.strategy,
            array_bytes=trained.reduced_bytes,
            groups=case.groups,
            read_from="executed graph" if trained.reductions else "counted updates",
        ),
        clock=case.clock.value,
        framework_path=trained.framework_path,
        versions=trained.versions,
        first_call_s=trained.epochs_s[0],
        training=trained,
    )
