"""The scripted framework "fake", for tests and demonstrations: its times come from a script."""

from __future__ import annotations

from busbw.model.case import Framework

FRAMEWORK = Framework(
    name="fake",
    strategies=("default", "fake"),
    strategy_of_other_collectives="fake",
    pip_extra="fake",
    packages=("busbw-fake",),
    can_share_devices=True,
    is_scripted=True,
)
