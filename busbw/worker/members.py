"""A member of a group that trains: requests from its channel, until the driver closes that."""

from __future__ import annotations

from typing import Any

from busbw.model import Failure, LaunchId, TrainingRequest

from .backends.base import AbstractTrainer, MeasuringError
from .channel import Channel, part


def serve_trainer(channel: Channel, trainer: AbstractTrainer, *, launch: LaunchId) -> None:
    """``offer`` this process to the others, ``train``; each request has exactly one reply."""
    channel.send("ready", None)
    for request in channel.received():
        try:
            channel.send(*_answer(request, trainer))
        except MeasuringError as error:
            channel.send("Failure", Failure(kind=error.kind, message=str(error), launch=launch))


def _answer(request: dict[str, Any], trainer: AbstractTrainer) -> tuple[str, Any]:
    if part(request, "request", str) == "offer":
        trainer.offer()
        return "offered", None
    return "TrainingAnswer", trainer.train(part(request, "training", TrainingRequest))
