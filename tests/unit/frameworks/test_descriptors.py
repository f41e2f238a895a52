"""The descriptor of each framework, found by its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw import frameworks
from busbw.frameworks import DEFAULT_FRAMEWORKS, FRAMEWORKS
from busbw.model.case import Framework


def test_installed_frameworks_come_before_the_fake_framework() -> None:
    assert tuple(FRAMEWORKS) == ("jax", "tensorflow", "fake")
    assert DEFAULT_FRAMEWORKS == ("jax", "tensorflow")


def test_every_file_in_the_package_frameworks_describes_a_framework() -> None:
    room = Path(frameworks.__file__).parent
    stems = {path.stem for path in room.glob("*.py")} - {"__init__", "base"}
    assert stems == set(FRAMEWORKS)
    assert all(name == framework.name for name, framework in FRAMEWORKS.items())


@pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=lambda framework: framework.name)
def test_each_framework_lists_its_default_strategy_first(
    framework: Framework,
) -> None:
    assert framework.strategies[0] == "default"
