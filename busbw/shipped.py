"""What busbw ships that is no code: the promises, and baselines that hold on every machine.

These are what compilers made of the programs, and published figures. In a checkout they lie beside
the package, in a wheel in it. Nothing is ever written here.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def promises() -> Path:
    """The folder with the tests."""
    return _shipped("perf", "perf")


def baselines() -> Path:
    """The folder with compiled baselines and published figures."""
    return _shipped("shipped_baselines", "baselines")


def _shipped(in_wheel: str, in_checkout: str) -> Path:
    installed = _PACKAGE / in_wheel
    return installed if installed.is_dir() else _PACKAGE.parent / in_checkout
