"""A framework that is scripted, for tests and demonstrations."""

from __future__ import annotations

from busbw.model import Framework
from busbw.workloads import DenseStep, Training

FRAMEWORK = Framework(
    name="fake",
    strategies=("default", "fake"),
    only_strategy="fake",
    workloads=(DenseStep, Training),
    ring="fake",
    extra="fake",
    packages=("busbw-fake",),
    compiles=True,
    scripted=True,
)
