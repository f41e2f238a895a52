"""A framework that is scripted, for tests and demonstrations."""

from __future__ import annotations

from busbw.model.workload import Framework
from busbw.workloads.dense_step import DenseStep
from busbw.workloads.training import Training

FRAMEWORK = Framework(
    name="fake",
    strategies=("default", "fake"),
    only_strategy="fake",
    workloads=(DenseStep, Training),
    ring="fake",
    extra="fake",
    packages=("busbw-fake",),
    compiles=True,
    shares_devices=True,
    scripted=True,
)
