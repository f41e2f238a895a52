"""A framework that is scripted, for tests and demonstrations."""

from __future__ import annotations

from busbw.model.workload import Framework

FRAMEWORK = Framework(
    name="fake",
    strategies=("default", "fake"),
    only_strategy="fake",
    ring="fake",
    extra="fake",
    packages=("busbw-fake",),
    shares_devices=True,
    scripted=True,
)
