"""Collection: the options' grid as parameters, and the session's own item as the last.

Asks no hardware and starts no process.
"""

from __future__ import annotations

import pytest

from busbw import cases
from busbw.model import Spec

from .items import SessionItem
from .state import STATE


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that asks for `verdict` gets one parameter per Spec of the grid."""
    if "verdict" in metafunc.fixturenames:
        specs = _specs(metafunc.config)
        metafunc.parametrize("verdict", specs, ids=[spec.id for spec in specs], indirect=True)


def _specs(config: pytest.Config) -> tuple[Spec, ...]:
    settings = config.stash[STATE].settings
    try:
        return cases.specs(
            frameworks=_frameworks_with_strategy(config),
            strategies=settings.strategies,
            dtypes=settings.dtypes,
            payloads=settings.payloads,
            ranks=settings.ranks,
        )
    except cases.GridError as error:
        raise pytest.UsageError(f"busbw: {error}") from error


def _frameworks_with_strategy(config: pytest.Config) -> tuple[str, ...]:
    """By default only frameworks that know one of the strategies; those named must know one."""
    settings = config.stash[STATE].settings
    if settings.frameworks_named:
        return settings.frameworks
    wanted = set(settings.strategies)
    return tuple(name for name in settings.frameworks if wanted & set(cases.STRATEGIES[name]))


def spec_of(item: pytest.Item) -> Spec | None:
    """The Spec of a perf item, None for any other."""
    callspec = getattr(item, "callspec", None)
    spec = callspec.params.get("verdict") if callspec is not None else None
    return spec if isinstance(spec, Spec) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """The session's verdict is the last item, whatever -k has left of the others."""
    measured = [item for item in items if spec_of(item) is not None]
    if measured:
        module = measured[-1].getparent(pytest.Module)
        assert module is not None
        items.append(SessionItem.from_parent(module, name="session"))
