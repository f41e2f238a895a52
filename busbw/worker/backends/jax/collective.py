"""A collective in JAX: the form of its chain, compiled and proved, run from fresh values, checked.

On the CPU a chain in place goes from one donated buffer to a second one and back, so that page
faults and copies are not timed. Out of place a barrier, which costs nothing, ties the input to the
last round: without it XLA moves the collective out of the loop.

XLA for GPUs runs a small all-reduce by a kernel of its own, which writes another buffer: alone in a
turn its result would be copied back; a second one in the turn brings it back instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives import COLLECTIVES
from busbw.model.case import Case
from busbw.model.machine import names_of
from busbw.model.words import MIB, Clock, Device, Placement

from ..base import unavailable, wrong_world
from ..hlo import proof
from ..values import Values
from ..words import Words
from . import lowerings
from .program import (
    EVERYWHERE,
    CheckOnDevices,
    Work,
    asked_shape,
    chain,
    lowered_over,
    placed,
)

# Buffers up to this size are made on the host.
_FROM_HOST_BYTES = 4 * MIB

# From this payload on a turn has few collectives: a single one takes long enough.
_LARGE_BYTES = 16 * MIB

# Payloads that XLA for GPUs may reduce by its own kernel, from jaxlib 0.11.2 on.
_KERNEL_BYTES = 4 * MIB


@dataclass(frozen=True)
class Form:
    """``function(asked, *buffers) -> (rounds counted, *buffers)`` on every rank, unmapped.

    `counts` are the buffers' elements on one rank, the `result`-th holds the result. `step`
    collectives make one turn of the loop, 0: there is no loop.
    """

    function: Callable[..., Any]
    counts: tuple[int, ...]
    result: int
    step: int
    donated: bool = True
    delayed: bool = False

    def shapes(self, case: Case, mesh: Mesh) -> list[jax.ShapeDtypeStruct]:
        sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
        return [
            jax.ShapeDtypeStruct((case.ranks * count,), jnp.dtype(case.dtype), sharding=sharding)
            for count in self.counts
        ]

    def lowered(self, case: Case, mesh: Mesh) -> Any:
        """``(asked, *buffers) -> (rounds counted, *buffers)``, not compiled yet."""
        arguments = [asked_shape(mesh, delayed=self.delayed), *self.shapes(case, mesh)]
        out_specs = (EVERYWHERE, *[PartitionSpec(mesh.axis_names)] * len(self.counts))
        donated = range(1, len(arguments)) if self.donated else ()
        return lowered_over(mesh, self.function, arguments, out_specs, tuple(donated))


def form_of(
    case: Case,
    axes: tuple[str, ...],
    rounds: int,
    *,
    device: Device,
    virtual: bool,
    delayed: bool = False,
) -> Form:
    """The Form for `case` over the mesh's `axes`, of which `rounds` chained ones stay exact."""
    size = jnp.dtype(case.dtype).itemsize
    collective = COLLECTIVES[case.collective]
    taken = collective.input_bytes(case.payload_bytes, case.group_size) // size
    given = collective.output_bytes(case.payload_bytes, case.group_size) // size
    one = partial(lowerings.lower, case, axes)
    in_place = case.placement == Placement.IN_PLACE.value
    if case.clock is Clock.DISPATCH:
        return Form(partial(_single, one), (taken,), result=0, step=0, donated=in_place)
    few = rounds < 4 or case.payload_bytes > _LARGE_BYTES
    form: Callable[..., tuple[Any, ...]]
    counts: tuple[int, ...]
    if not in_place:
        # More of them in a turn have the same input and would be merged into one.
        form, counts, result, step = _repeated, (taken, given), 1, 1
    elif virtual:
        form, counts, result, step = _ping_pong, (taken, taken), 0, 2 if few else 4
    else:
        form, counts, result, step = _chained, (taken,), 0, 1
        if device is Device.GPU and case.payload_bytes <= _KERNEL_BYTES:
            step = min(2, max(1, rounds))
    function = partial(chain, partial(form, one), step=step, delayed=delayed)
    return Form(function, counts, result, step, delayed=delayed)


_One = Callable[[Any], Any]


def _single(one: _One, turns: jax.Array, values: jax.Array) -> tuple[Any, ...]:
    return turns, one(values)


def _ping_pong(one: _One, number: int, first: Any, second: Any) -> tuple[Any, ...]:
    return (first, one(first)) if number % 2 == 0 else (one(second), second)


def _chained(one: _One, _: int, values: Any) -> tuple[Any, ...]:
    return (one(values),)


def _repeated(one: _One, _: int, values: Any, result: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = jax.lax.optimization_barrier((values, one(values)))
    return found


def work_of(case: Case, mesh: Mesh, *, virtual: bool, soaking: bool = False) -> Work:
    """Raises MeasuringError where ranks are missing, or not even a call stays exact."""
    there = len(set(mesh.devices.flat))
    if there != case.ranks:
        raise wrong_world(f"{there} devices take part, expected {case.ranks}")
    exact = (Words if soaking else Values)(case, jnp.dtype(case.dtype))
    rounds = exact.most_rounds()
    device = Device(mesh.devices.flat[0].platform)
    formed = partial(form_of, case, _axes(case, mesh), rounds, device=device, virtual=virtual)
    form = formed()
    step = max(1, form.step)
    wanted = partial(proof.wanted, case, step, device=device)
    return Work(
        values=exact,
        step=step,
        most_iterations=_most_iterations(case, rounds, form.step),
        lowered=lambda *, delayed: formed(delayed=delayed).lowered(case, mesh),
        proved=lambda text, *, delayed: proof.prove(text, wanted(plain=not delayed)),
        shapes=form.shapes(case, mesh),
        start=None if virtual else _start(case, mesh, form, exact),
        result=form.result,
        donated=form.donated,
        from_host=case.payload_bytes <= _FROM_HOST_BYTES,
        on_devices=None if virtual or soaking else CheckOnDevices(case, mesh, exact),
    )


def host_bytes(case: Case) -> int:
    """Input and result of each rank, and what XLA's own copies take."""
    collective = COLLECTIVES[case.collective]
    taken = collective.input_bytes(case.payload_bytes, case.group_size)
    given = collective.output_bytes(case.payload_bytes, case.group_size)
    temporary = 0 if collective.copy_free else 2 * case.payload_bytes
    if case.clock is Clock.DISPATCH and case.placement == Placement.OUT_OF_PLACE.value:
        # The last result is released only when the next one is there.
        temporary += given
    return case.ranks * (taken + given + temporary)


def _start(case: Case, mesh: Mesh, form: Form, exact: Values) -> Callable[..., Any]:
    """``(number, *buffers) -> buffers`` with that draw, tiled, in the first, in place."""
    each = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    # What each rank starts with in a draw, of shape (blocks, period), on that rank; the inexact one
    # is the last, which its number finds.
    draws = [
        placed(np.stack([exact.start(rank, number) for rank in range(case.ranks)]), each)
        for number in (*range(exact.draws), *([exact.INEXACT] if exact.is_inexact else []))
    ]
    count, (_, blocks, period) = form.counts[0], draws[0].shape

    def start(own: jax.Array, *held: jax.Array) -> tuple[jax.Array, ...]:
        length = count // blocks
        tiled = jnp.tile(own[0], (1, -(-length // period)))[:, :length]
        return (tiled.reshape(count), *held[1:])

    arguments = [draws[0], *form.shapes(case, mesh)]
    out_specs = (PartitionSpec(mesh.axis_names),) * len(form.counts)
    donated = tuple(range(1, len(arguments)))
    compiled = lowered_over(mesh, start, arguments, out_specs, donated).compile()
    return lambda number, *buffers: compiled(draws[number], *buffers)


def lowered(case: Case, mesh: Mesh, device: Device) -> tuple[Any, int]:
    rounds = Values(case, jnp.dtype(case.dtype)).most_rounds()
    form = form_of(case, _axes(case, mesh), rounds, device=device, virtual=False)
    return form.lowered(case, mesh), max(1, form.step)


def _axes(case: Case, mesh: Mesh) -> tuple[str, ...]:
    return names_of(case.axes) if case.axes else tuple(mesh.axis_names)


def _most_iterations(case: Case, rounds: int, step: int) -> int:
    """As many as stay exact, in whole turns of `step`; without a loop, one."""
    most = rounds // step * step if step else 1
    if most == 0:
        raise unavailable(
            f"{case.dtype} holds no exact chain of {step} over {case.group_size} ranks"
        )
    return most
