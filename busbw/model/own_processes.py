"""What a workload is asked whose launches are groups of processes of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from .case import Case
from .identity import LaunchId
from .result import Failure, Run
from .training_run import TrainingAnswer, TrainingRequest


class OwnProcesses(ABC):
    """A workload each of whose launches is a group of processes, which train together."""

    __slots__ = ()

    @abstractmethod
    def request(self, case: Case, device: str, examples: str) -> TrainingRequest:
        """What is asked for; `examples` is the path of the file that is learned from."""

    @abstractmethod
    def run_of(
        self,
        case: Case,
        request: TrainingRequest,
        answers: Sequence[TrainingAnswer],
        launch: LaunchId,
    ) -> Run | Failure:
        """One Run of all answers, in the order of roles, if they agree; else why not."""
