"""A trainer under strategies that trains nothing: made-up figures, and what its script says.

The script is JSON in BUSBW_FAKE. ``roles`` has an event by role, such as ``{"worker 1": "kill"}``,
``strategies`` what befalls a strategy, in all passes or in those named::

    {"device": "tpu", "roles": {"worker 1": "kill"},
     "strategies": {"mirrored": {"passes": [2], "step_s": 0.002, "slower": 3, "then": "exit",
                                 "disagree": true, "lose_updates": 1, "reductions": {}}}}

With `disagree` the last rank's variables end up others than everybody's. TPUStrategy is
unavailable unless the script's `device` is ``tpu``.
"""

from __future__ import annotations

import json
import os
from typing import Any

from busbw.model import (
    CNN_BYTES,
    FailureKind,
    StrategyRun,
    StrategyTraining,
    TrainingStrategy,
)

from .base import MeasuringError
from .fake import VARIABLE, befall, launch_number
from .trainer import AbstractTrainer

# So many are shown in an epoch, whatever file is named.
_EXAMPLES = 1500

_STEP_S = 0.001
_TRACING_S = 0.5

# By which operation the real ones add up gradients, and whether each rank has one of its own.
_REDUCTIONS = {
    TrainingStrategy.MIRRORED: ("CollectiveReduceV2", True),
    TrainingStrategy.MULTI_WORKER_MIRRORED: ("CollectiveReduceV2", True),
    TrainingStrategy.CENTRAL_STORAGE: ("AddN", False),
    TrainingStrategy.TPU: ("CrossReplicaSum", False),
}


class FakeStrategyTrainer(AbstractTrainer[StrategyTraining, StrategyRun]):
    """A member that is done at once, and says that a step took a millisecond."""

    takes = StrategyTraining

    def __init__(self) -> None:
        self._script: dict[str, Any] = json.loads(os.environ.get(VARIABLE, "{}"))
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        self._role = f"{task['type']} {task['index']}"

    def offer(self) -> None:
        """Nobody will come; the script may have an end in store, as for those that train."""
        befall(self._script.get("roles", {}).get(self._role, ""))

    def train(self, training: StrategyTraining) -> StrategyRun:
        """What would be expected of it, unless the script says otherwise."""
        befall(self._script.get("roles", {}).get(self._role, ""))
        line = self._line(training.strategy)
        befall(line.get("then", ""))
        if training.strategy is TrainingStrategy.TPU and self._script.get("device") != "tpu":
            raise MeasuringError(FailureKind.UNAVAILABLE, "TPUStrategy needs a TPU: made up")
        steps = _EXAMPLES // training.batch
        names = self._names(training)
        last = dict.fromkeys(names, "b" * 64)
        if line.get("disagree") and f"{training.ranks - 1}" in names[-1]:
            last[names[-1]] = "c" * 64
        expected = training.epochs * steps * training.updates_of_a_step
        return StrategyRun(
            api=f"made up, {training.strategy.value}",
            epochs_s=_epochs_s(training, steps, line),
            steps=steps,
            accuracy=0.9375,
            loss=0.25,
            updates=expected - int(line.get("lose_updates", 0)),
            first_digests=dict.fromkeys(names, "a" * 64),
            last_digests=last,
            compile_s=_TRACING_S,
            framework_path=os.path.dirname(__file__),
            versions={"fake": "1"},
            reductions=line.get("reductions", self._reductions(training)),
            reduced_bytes=CNN_BYTES + 4 if training.strategy in _REDUCTIONS else None,
            replicas=len(names) if training.strategy.is_mirrored else training.ranks,
        )

    def _line(self, strategy: TrainingStrategy) -> dict[str, Any]:
        """What the script says of `strategy` in this launch."""
        line: dict[str, Any] = self._script.get("strategies", {}).get(strategy.value, {})
        return line if launch_number() in line.get("passes", [launch_number()]) else {}

    def _names(self, training: StrategyTraining) -> list[str]:
        """Whose copies of the variables this process has."""
        if training.strategy is TrainingStrategy.MULTI_WORKER_MIRRORED:
            return [f"{self._role}, replica 0"]
        if training.strategy.is_mirrored:
            return [f"replica {rank}" for rank in range(training.ranks)]
        return ["all"]

    def _reductions(self, training: StrategyTraining) -> dict[str, int]:
        if training.strategy not in _REDUCTIONS:
            return {}
        kind, each_rank = _REDUCTIONS[training.strategy]
        return {kind: len(self._names(training)) if each_rank else 1}


def _epochs_s(training: StrategyTraining, steps: int, line: dict[str, Any]) -> tuple[float, ...]:
    """The script's, up to 3 % more so that epochs differ; the first holds tracing."""
    step_s = float(line.get("step_s", _STEP_S)) * float(line.get("slower", 1.0))
    varied = [steps * step_s * (1 + 0.01 * (epoch * 7 % 4)) for epoch in range(training.epochs)]
    return tuple(
        epoch_s + (_TRACING_S if epoch == 0 else 0.0) for epoch, epoch_s in enumerate(varied)
    )
