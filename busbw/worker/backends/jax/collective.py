"""A collective in JAX: its program compiled and proved, run from fresh values, and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from busbw.collectives import COLLECTIVES
from busbw.model import MIB, Case, Clock, Device, FailureKind, Placement, Proof

from ..base import MeasuringError
from ..expected import Values
from ..hlo import proof
from . import forms, versions
from .check import CheckOnDevices
from .forms import form_of
from .injection import NOTHING, Beside
from .program import JaxProgram

# Buffers up to this size are made on the host.
_FROM_HOST_BYTES = 4 * MIB


class CollectiveProgram(JaxProgram):
    """Program, starting values and check, each compiled once for the case's shape."""

    def __init__(self, case: Case, mesh: Mesh, *, virtual: bool, beside: Beside = NOTHING) -> None:
        _check_world(case, mesh)
        self._beside = beside
        self._dtype = jnp.dtype(case.dtype)
        exact = Values(case, self._dtype)
        rounds = exact.most_rounds()
        self._form = form_of(case, _axes(case, mesh), rounds, virtual=virtual, beside=beside)
        self._result_at, self._donated = self._form.result, self._form.donated
        self.step = max(1, self._form.step)
        self.most_iterations = _most_iterations(case, rounds, self._form.step)
        super().__init__(case, mesh, exact, PartitionSpec(mesh.axis_names))
        self._shapes = forms.shapes(case, mesh, self._form)
        text = self._compile(lambda: forms.lowered(case, mesh, self._form))
        self.proof = self._prove(text)
        self._draws = [self._on_ranks(exact, number) for number in range(exact.draws)]
        self._start = self._compiled_start(self._draws[0])
        self._on_devices = None if virtual else CheckOnDevices(case, mesh, exact)

    @classmethod
    def host_bytes(cls, case: Case) -> int:
        """Input and result of each rank, and what XLA's own copies take."""
        collective = COLLECTIVES[case.collective]
        taken = collective.input_bytes(case.payload_bytes, case.group_size)
        given = collective.output_bytes(case.payload_bytes, case.group_size)
        beside = 0 if collective.copy_free else 2 * case.payload_bytes
        if case.clock is Clock.DISPATCH and case.placement == Placement.OUT_OF_PLACE.value:
            # The last result is released only when the next one is there.
            beside += given
        return case.ranks * (taken + given + beside)

    def _prove(self, text: str) -> Proof:
        wanted = proof.wanted(
            self._case,
            self.step,
            device=Device(self._mesh.devices.flat[0].platform),
            plain=self._beside == NOTHING,
            part_bytes=self._beside.part * self._dtype.itemsize,
        )
        return proof.prove(text, wanted)

    def _on_ranks(self, exact: Values, number: int) -> jax.Array:
        """What each rank starts with in a draw, of shape (blocks, period), on that rank."""
        table = np.stack([exact.start(rank, number) for rank in range(self._case.ranks)])
        placed: jax.Array = jax.device_put(table, NamedSharding(self._mesh, self._spec))
        return placed

    def _compiled_start(self, draw: jax.Array) -> Callable[..., tuple[jax.Array, ...]]:
        """``(draw, *buffers) -> buffers`` with the draw, tiled, in the first, in place."""
        count, (_, blocks, period) = self._form.counts[0], draw.shape

        def start(own: jax.Array, *held: jax.Array) -> tuple[jax.Array, ...]:
            length = count // blocks
            tiled = jnp.tile(own[0], (1, -(-length // period)))[:, :length]
            return (tiled.reshape(count), *held[1:])

        number = len(self._shapes)
        mapped = versions.shard_map(
            start,
            mesh=self._mesh,
            in_specs=(self._spec,) * (1 + number),
            out_specs=(self._spec,) * number,
        )
        jitted = jax.jit(mapped, donate_argnums=tuple(range(1, 1 + number)), keep_unused=True)
        compiled: Callable[..., tuple[jax.Array, ...]] = jitted.lower(draw, *self._shapes).compile()
        return compiled

    def _new_buffers(self) -> tuple[jax.Array, ...]:
        """Small ones come from the host, which is quicker than a program for that once."""
        if self._case.payload_bytes <= _FROM_HOST_BYTES:
            return self._zeros_from_host()
        shapes = tuple(self._shapes)
        made = jax.jit(
            lambda: tuple(jnp.zeros(one.shape, one.dtype) for one in shapes),
            out_shardings=tuple(one.sharding for one in shapes),
        )
        found: tuple[jax.Array, ...] = made()
        return found


def lowered(case: Case, mesh: Mesh) -> tuple[Any, int]:
    """The chain of `case` on devices that are not there, and how many collectives are in a turn."""
    rounds = Values(case, jnp.dtype(case.dtype)).most_rounds()
    form = form_of(case, _axes(case, mesh), rounds, virtual=False)
    return forms.lowered(case, mesh, form), max(1, form.step)


def _axes(case: Case, mesh: Mesh) -> tuple[str, ...]:
    """Those that the collective goes along: all, unless the case names some."""
    return tuple(case.axes) or tuple(mesh.axis_names)


def _check_world(case: Case, mesh: Mesh) -> None:
    there = len(set(mesh.devices.flat))
    if there != case.ranks:
        raise MeasuringError(
            FailureKind.WRONG_WORLD, f"{there} devices take part, expected {case.ranks}"
        )


def _most_iterations(case: Case, rounds: int, step: int) -> int:
    """As many as stay exact, in whole turns of `step`; without a loop, one."""
    most = rounds // step * step if step else 1
    if most == 0:
        raise MeasuringError(
            FailureKind.UNAVAILABLE,
            f"{case.dtype} holds no exact chain of {step} over {case.group_size} ranks",
        )
    return most
