"""The narrow door of what can be a member of a group that trains. Abstract or final, never both."""

from __future__ import annotations

from abc import ABC, abstractmethod

from busbw.model import TrainingAnswer, TrainingRequest


class AbstractTrainer(ABC):
    """One process of a group, made for its place: its role and all addresses."""

    @abstractmethod
    def offer(self) -> None:
        """Be there for the others at this process's own address, in the background.

        Raises MeasuringError UNAVAILABLE where that cannot be had.
        """

    @abstractmethod
    def train(self, request: TrainingRequest) -> TrainingAnswer:
        """Train from beginning to end, as far as this process's role goes.

        Raises MeasuringError.
        """
