"""A trainer that trains nothing: answers at once, or has befall its role what its script says.

The script is JSON in BUSBW_FAKE: ``roles`` has an event by role, such as ``{"worker 1": "kill"}``,
``lose_updates`` the updates that the variables do not see.
"""

from __future__ import annotations

import json
import os
from typing import Any

from busbw.model import ParameterServerRun, ParameterServerTraining

from .fake import VARIABLE, befall
from .trainer import AbstractTrainer


class FakeTrainer(AbstractTrainer[ParameterServerTraining, ParameterServerRun]):
    """A member whose epochs take a second each, the first one two, by its own account."""

    takes = ParameterServerTraining

    def __init__(self) -> None:
        self._script: dict[str, Any] = json.loads(os.environ.get(VARIABLE, "{}"))
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        self._role = f"{task['type']} {task['index']}"

    def offer(self) -> None:
        """Nobody will come."""

    def train(self, training: ParameterServerTraining) -> ParameterServerRun:
        """What would be expected of it, unless the script says otherwise."""
        befall(self._script.get("roles", {}).get(self._role, ""))
        updates = training.expected_updates - int(self._script.get("lose_updates", 0))
        shared = training.workers if self._role.startswith("chief") else 1
        return ParameterServerRun(
            api=f"made up, {training.updates.value}",
            epochs_s=(2.0,) + (1.0,) * (training.epochs - 1),
            accuracy=0.75,
            gradients=training.steps * shared,
            global_step=training.expected_updates,
            updates=updates,
            server_bytes={f"ps {index}": 1024 for index in range(training.servers)},
            processor="Fake CPU",
            cores=2,
            versions={"fake": "1"},
        )
