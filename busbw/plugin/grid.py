"""Collection: the options' grid as parameters, and the session's own item as the last.

Asks no hardware and starts no process.
"""

from __future__ import annotations

import pytest

from busbw import cases
from busbw.model import Spec

from .items import SessionItem
from .settings import how_to_get
from .state import STATE, spec_of, under_xdist


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that asks for `verdict` gets one parameter per Spec of the grid.

    An impossible grid is only noted: an error raised here would pass for a broken test file.
    Under pytest-xdist that is all that can be said.
    """
    if "verdict" not in metafunc.fixturenames:
        return
    specs: tuple[Spec, ...] = ()
    try:
        specs = _specs(metafunc.config)
        metafunc.config.stash[STATE].grid = specs
    except cases.GridError as error:
        if under_xdist(metafunc.config):
            raise pytest.UsageError(f"busbw: {error}") from error
        metafunc.config.stash[STATE].grid_error = str(error)
    metafunc.parametrize("verdict", specs, ids=[spec.id for spec in specs], indirect=True)


def _specs(config: pytest.Config) -> tuple[Spec, ...]:
    settings = config.stash[STATE].settings
    if not settings.frameworks:
        raise cases.GridError(f"neither jax nor tensorflow is installed here; {how_to_get('jax')}")
    return cases.specs(
        cases.Asked(
            frameworks=settings.frameworks,
            named=settings.frameworks_named,
            strategies=settings.strategies,
            collectives=settings.collectives,
            reduce_ops=settings.reduce_ops,
            placements=settings.placements,
            dtypes=settings.dtypes,
            payloads=settings.payloads,
            ranks=settings.ranks,
            mesh=settings.mesh,
            axes=settings.axes,
            clock=settings.clock,
        )
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """The session's verdict is the last item, whatever -k, --lf and --ff made of the others."""
    error = session.config.stash[STATE].grid_error
    if error:
        raise pytest.UsageError(f"busbw: {error}")
    measured = [item for item in session.items if spec_of(item) is not None]
    if measured:
        module = measured[-1].getparent(pytest.Module)
        assert module is not None
        session.items.append(SessionItem.from_parent(module, name="session"))
