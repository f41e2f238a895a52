"""The narrow door of what can be a member of a group that trains. Abstract or final, never both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from busbw.model import (
    ParameterServerRun,
    ParameterServerTraining,
    StrategyRun,
    StrategyTraining,
)

Asked = TypeVar("Asked", ParameterServerTraining, StrategyTraining)
Given = TypeVar("Given", ParameterServerRun, StrategyRun)


class AbstractTrainer(ABC, Generic[Asked, Given]):
    """One process of a group; its environment (TF_CONFIG) tells its role and all addresses."""

    takes: type[Asked]

    @abstractmethod
    def offer(self) -> None:
        """Be there for the others at this process's own address, in the background.

        Raises MeasuringError UNAVAILABLE where that cannot be had.
        """

    @abstractmethod
    def train(self, training: Asked) -> Given:
        """Train from beginning to end, as far as this process's role goes.

        Raises MeasuringError.
        """
