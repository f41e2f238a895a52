"""Collection: the options' grid as parameters, and the session's own item as the last.

Asks no hardware and starts no process.
"""

from __future__ import annotations

import inspect

import pytest

from busbw import cases
from busbw.model import CompileSpec, Spec

from .compiling import labels_of
from .items import SessionItem
from .settings import Settings, how_to_get
from .state import STATE, State, compile_spec_of, spec_of, under_xdist

# The fixtures that are parametrized: one reads what was measured, one what was compiled.
MEASURED, COMPILED = "verdict", "compiled"


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> object:
    """Either everything is measured or everything is compiled: tests of the other are not there."""
    if not (inspect.isfunction(obj) and collector.config.stash.get(STATE, None)):
        return None
    compiles = collector.config.stash[STATE].settings.compile is not None
    other = MEASURED if compiles else COMPILED
    return [] if other in inspect.signature(obj).parameters else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that asks for a verdict gets one parameter per Spec of the grid.

    An impossible grid is only noted: an error raised here would pass for a broken test file.
    Under pytest-xdist that is all that can be said.
    """
    state = metafunc.config.stash[STATE]
    name = MEASURED if state.settings.compile is None else COMPILED
    if name not in metafunc.fixturenames:
        return
    specs: tuple[Spec, ...] | tuple[CompileSpec, ...] = ()
    try:
        state.grid = _specs(state.settings)
        state.compile_grid = _compile_specs(state)
        specs = state.compile_grid if name == COMPILED else state.grid
    except cases.GridError as error:
        if under_xdist(metafunc.config):
            raise pytest.UsageError(f"busbw: {error}") from error
        state.grid_error = str(error)
    metafunc.parametrize(name, specs, ids=[spec.id for spec in specs], indirect=True)


def _compile_specs(state: State) -> tuple[CompileSpec, ...]:
    asked = state.settings.compile
    if asked is None:
        return ()
    return tuple(
        CompileSpec(topology=topology.name, spec=spec, compiler=label)
        for topology in asked.topologies
        for label in labels_of(asked)
        for spec in state.grid
    )


def _specs(settings: Settings) -> tuple[Spec, ...]:
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
            ranks=settings.ranks if settings.compile is None else None,
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
    measured = [item for item in session.items if spec_of(item) or compile_spec_of(item)]
    if measured:
        module = measured[-1].getparent(pytest.Module)
        assert module is not None
        session.items.append(SessionItem.from_parent(module, name="session"))
