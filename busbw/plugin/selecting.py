"""What a test item is to this plugin: the Spec that it reads a verdict of, if any."""

from __future__ import annotations

import pytest

from busbw.model import CompiledVerdict, CompileSpec, SessionVerdict, Spec, Verdict

from .session import SESSION, Collected
from .settings import settings_of

VERDICT = pytest.StashKey[Verdict | CompiledVerdict | SessionVerdict]()


def pytest_configure(config: pytest.Config) -> None:
    """Read the options; a wrong one is a usage error before anything else happens."""
    config.addinivalue_line("markers", "busbw: a test that reads the verdict of one measured case")
    config.addinivalue_line(
        "markers",
        "training(step, alone): training steps, or with alone=True their collectives by "
        "themselves; there only where -m asks for training",
    )
    config.stash[SESSION] = Collected(settings=settings_of(config))


def under_xdist(config: pytest.Config) -> bool:
    """Whether this process runs tests for pytest-xdist."""
    return hasattr(config, "workerinput")


def spec_of(item: pytest.Item) -> Spec | None:
    """The Spec of a perf item, None for any other."""
    spec = _parameter(item, "verdict")
    return spec if isinstance(spec, Spec) else None


def compile_spec_of(item: pytest.Item) -> CompileSpec | None:
    """The CompileSpec of an item that reads what was compiled, None for any other."""
    spec = _parameter(item, "compiled")
    return spec if isinstance(spec, CompileSpec) else None


def is_perf(item: pytest.Item) -> bool:
    """Whether `item` reads a verdict of one case, measured or compiled."""
    return spec_of(item) is not None or compile_spec_of(item) is not None


def _parameter(item: pytest.Item, name: str) -> object:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get(name) if callspec is not None else None
