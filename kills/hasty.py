"""pytest, with a deadline for starts that can be waited for; by default it is three minutes."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

START_S = 20.0


def main() -> int:
    """The exit code of pytest with the given options."""
    for module, name in (
        ("starting", "START_TIMEOUT_S"),
        ("training", "START_TIMEOUT_S"),
        ("probe", "PROBE_TIMEOUT_S"),
    ):
        assert hasattr(import_module(f"busbw.driver.{module}"), name)
        setattr(import_module(f"busbw.driver.{module}"), name, START_S)
    return pytest.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
