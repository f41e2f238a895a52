"""A group of processes that trains a net: started, asked once, ended."""

from __future__ import annotations

from busbw.model import Failure, LaunchId, TrainingAnswer, TrainingRequest

from .executor import Executor
from .transport import Request, Starter


def trained(
    executor: Executor,
    starter: Starter,
    launch: LaunchId,
    request: TrainingRequest,
    timeout_s: float,
) -> tuple[TrainingAnswer, ...] | Failure:
    """What those answer that train, in the order of their roles; no process of theirs is left.

    `timeout_s` is for the training alone. A group of which one is cut short before that is started
    once more.
    """
    group = executor.opened(starter, launch, request.cluster)
    if isinstance(group, Failure):
        return group
    try:
        answers = group.ask_all(Request("train", {"training": request}), timeout_s, "training")
    finally:
        # A server never ends by itself.
        executor.end(group)
    if isinstance(answers, Failure):
        return answers
    return tuple(one for one in answers.values() if isinstance(one, TrainingAnswer))
