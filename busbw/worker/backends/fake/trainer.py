"""A trainer that trains nothing: invented figures, and what its script says.

The script is JSON in BUSBW_FAKE. ``roles`` has an event by role, such as ``{"worker 1": "kill"}``,
``lose_updates`` the updates that the variables do not see, ``strategies`` what happens to a
strategy, in all passes or in those named::

    {"device": "tpu", "roles": {"worker 1": "kill"},
     "strategies": {"mirrored": {"passes": [2], "step_s": 0.002, "slower": 3, "then": "exit",
                                 "disagree": true, "lose_updates": 1, "reductions": {}}}}

With `disagree` the last rank's variables differ from all others at the end. TPUStrategy is
unavailable unless the script's `device` is ``tpu``.
"""

from __future__ import annotations

import json
import os
from typing import Any

from busbw.model.training import (
    CNN_BYTES,
    ClusterMember,
    Net,
    TrainingAnswer,
    TrainingRequest,
    TrainingRun,
    TrainingStrategy,
)

from ..base import AbstractTrainer, unavailable
from .backend import VARIABLE, happen, launch_number

# Examples shown in an epoch, for any file.
_EXAMPLES = 1500

_STEP_S = 0.001
_TRACING_S = 0.5

# The operation with which the real ones add up gradients, and whether each rank has its own.
_REDUCTIONS = {
    TrainingStrategy.MIRRORED: ("CollectiveReduceV2", True),
    TrainingStrategy.MULTI_WORKER_MIRRORED: ("CollectiveReduceV2", True),
    TrainingStrategy.CENTRAL_STORAGE: ("AddN", False),
    TrainingStrategy.TPU: ("CrossReplicaSum", False),
}


class FakeTrainer(AbstractTrainer):
    """A member that is done at once, with fixed figures for each net."""

    def __init__(self, member: ClusterMember) -> None:
        self._script: dict[str, Any] = json.loads(os.environ.get(VARIABLE, "{}"))
        self._role = member.role.name
        self._only_offers = "chief" in member.addresses or member.role.task == "ps"

    def offer(self) -> None:
        """Serve nobody; a script's event happens here to members that get no other request."""
        if self._only_offers:
            self._happen()

    def train(self, request: TrainingRequest) -> TrainingAnswer:
        self._happen()
        line = self._line(request)
        happen(line.get("then", ""))
        if request.strategy is TrainingStrategy.TPU and self._script.get("device") != "tpu":
            raise unavailable("TPUStrategy needs a TPU: made up")
        is_cnn = request.net is Net.CNN
        steps = (_EXAMPLES if is_cnn else request.examples) // request.batch
        names = self._names(request)
        last = dict.fromkeys(names, "b" * 64)
        if line.get("disagree") and f"{request.ranks - 1}" in names[-1]:
            last[names[-1]] = "c" * 64
        expected = request.epochs * steps * request.updates_of_a_step
        lost = int(line.get("lose_updates", self._script.get("lose_updates", 0)))
        way = request.strategy if is_cnn and request.strategy else request.updates
        run = TrainingRun(
            api=f"made up, {way.value}",
            epochs_s=_epochs_s(request, steps, line),
            steps=steps,
            accuracy=0.9375 if is_cnn else 0.75,
            loss=0.25,
            updates=expected - lost,
            first_digests=dict.fromkeys(names, "a" * 64),
            last_digests=last,
            compile_s=_TRACING_S,
            framework_path=os.path.dirname(__file__),
            versions={"fake": "1"},
            reductions=line.get("reductions", self._reductions(request)),
            reduced_bytes=CNN_BYTES + 4 if request.strategy in _REDUCTIONS else None,
            # A process trains for all ranks, unless it is a worker, which is one.
            replicas=1 if self._role.startswith("worker") else request.ranks,
        )
        return TrainingAnswer(
            run=run,
            gradients=request.epochs * steps * run.replicas,
            processor="Fake CPU",
            cores=2,
            global_step=None if is_cnn else expected,
            server_bytes={f"ps {index}": 1024 for index in range(request.servers)},
        )

    def _happen(self) -> None:
        happen(self._script.get("roles", {}).get(self._role, ""))

    def _line(self, request: TrainingRequest) -> dict[str, Any]:
        name = request.strategy.value if request.strategy else ""
        line: dict[str, Any] = self._script.get("strategies", {}).get(name, {})
        return line if launch_number() in line.get("passes", [launch_number()]) else {}

    def _names(self, request: TrainingRequest) -> list[str]:
        if request.strategy is TrainingStrategy.MULTI_WORKER_MIRRORED:
            return [f"{self._role}, replica 0"]
        if request.has_copies:
            return [f"replica {rank}" for rank in range(request.ranks)]
        return ["all"]

    def _reductions(self, request: TrainingRequest) -> dict[str, int]:
        if request.strategy is None or request.strategy not in _REDUCTIONS:
            return {}
        kind, each_rank = _REDUCTIONS[request.strategy]
        return {kind: len(self._names(request)) if each_rank else 1}


def _epochs_s(request: TrainingRequest, steps: int, line: dict[str, Any]) -> tuple[float, ...]:
    """Up to 3 % more so that epochs differ; the first holds tracing."""
    if request.net is Net.PERCEPTRON:
        return (2.0,) + (1.0,) * (request.epochs - 1)
    step_s = float(line.get("step_s", _STEP_S)) * float(line.get("slower", 1.0))
    varied = [steps * step_s * (1 + 0.01 * (epoch * 7 % 4)) for epoch in range(request.epochs)]
    return tuple(
        epoch_s + (_TRACING_S if epoch == 0 else 0.0) for epoch, epoch_s in enumerate(varied)
    )
