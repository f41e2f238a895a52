"""A framework that is scripted, for tests and demonstrations."""

from __future__ import annotations

from busbw.model import CNN, DENSE

from .base import Framework

FRAMEWORK = Framework(
    name="fake",
    strategies=("default", "fake"),
    only_strategy="fake",
    steps=(DENSE, CNN),
    ring="fake",
    extra="fake",
    compiles=True,
    made_up=True,
)
