"""One case in JAX: a chain of `psum` in one compiled `shard_map` program.

On the CPU the chain runs between two donated buffers, from one to the other and back: XLA then
allocates nothing and copies nothing, so that page faults and copies are not what is timed. With
a single donated buffer it allocates the second one anew in each call (seen: +40 % at 128M). On
an accelerator one buffer suffices: the collective is done in place, or (a TPU7x's SparseCore)
between the buffer and one of the compiler's own, with a copy before and after the loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from busbw.model import MIB, Case, FailureKind, Proof

from . import expected, hlo
from .base import AbstractProgram, MeasuringError

RANKS = "ranks"
_EACH = PartitionSpec(RANKS)
_ALL = PartitionSpec()

# Few collectives in one call for payloads whose single all-reduce takes long anyway.
_LARGE_BYTES = 16 * MIB
_CHECKED_AT_ONCE = 2**18


class JaxProgram(AbstractProgram):
    """Chain, starting values and check, each compiled once for the case's shape."""

    def __init__(self, case: Case, mesh: jax.sharding.Mesh, *, virtual: bool) -> None:
        self._case = case
        self._mesh = mesh
        self._dtype = jnp.dtype(case.dtype)
        self._count = case.payload_bytes // self._dtype.itemsize
        rounds = expected.most_rounds(case.dtype, case.ranks)
        if rounds < 2:
            raise MeasuringError(
                FailureKind.UNAVAILABLE,
                f"{case.dtype} holds no exact chain of sums over {case.ranks} ranks",
            )
        few = rounds < 4 or case.payload_bytes > _LARGE_BYTES
        self.step = (2 if few else 4) if virtual else 1
        self._values = NamedSharding(mesh, _EACH)
        self._replicated = NamedSharding(mesh, _ALL)
        self._buffers = 2 if virtual else 1
        self._peak_before_bytes = self._peak_bytes()
        begun_s = time.perf_counter()
        self._chain = self._compiled_chain()
        self.compile_s = time.perf_counter() - begun_s
        self.most_iterations = rounds // self.step * self.step
        self.proof = self._prove(self._chain.as_text())
        self._start = self._compiled_start()
        self._wrong_chunks = self._compiled_check()
        self._state: tuple[jax.Array, ...] = self._blank()

    def release(self) -> None:
        """Let go of the buffers."""
        self._state = ()

    def fresh(self) -> None:
        """Starting values on every rank, in the buffers that are there."""
        self._state = self._start(*self._state)
        jax.block_until_ready(self._state)

    def run(self, iterations: int) -> None:
        """A chain of `iterations` sums, one call, and wait for it."""
        turns = jax.device_put(np.int32(iterations // self.step), self._replicated)
        self._state = self._chain(turns, *self._state)
        jax.block_until_ready(self._state)

    def check(self, iterations: int) -> int:
        """Compare every element on every rank, on the devices."""
        case = self._case
        wanted = expected.after(case.dtype, case.ranks, iterations).astype(self._dtype)
        result = self._state[0]
        bad = np.asarray(self._wrong_chunks(jax.device_put(wanted, self._replicated), result))
        for rank, chunk in enumerate(bad):
            if chunk < self._chunks + 1:
                raise self._wrong_result(rank, int(chunk), wanted)
        return self._count * case.ranks

    def device_peak_bytes(self) -> int | None:
        """The highest use of any device, if this program raised it: JAX cannot start anew."""
        peak_bytes = self._peak_bytes()
        return peak_bytes if peak_bytes > self._peak_before_bytes else None

    def _peak_bytes(self) -> int:
        counts = [device.memory_stats() or {} for device in self._mesh.devices.flat]
        return max(int(count.get("peak_bytes_in_use", 0)) for count in counts)

    def _wrong_result(self, rank: int, chunk: int, wanted: Any) -> MeasuringError:
        shard = self._state[0].addressable_shards[rank].data
        begin = chunk * self._chunk
        got = np.asarray(shard[begin : begin + self._chunk])
        exact = np.resize(wanted, got.shape)
        place = int(np.argmax(got != exact))
        return MeasuringError(
            FailureKind.WRONG_RESULT,
            f"rank {rank}, element {begin + place}: {got[place]}, expected {exact[place]}",
        )

    @property
    def _chunk(self) -> int:
        """How many elements are checked at once: whole periods of the data."""
        period = expected.period(self._case.ranks)
        return max(period, min(self._count, _CHECKED_AT_ONCE) // period * period)

    @property
    def _chunks(self) -> int:
        return self._count // self._chunk

    def _shape(self) -> jax.ShapeDtypeStruct:
        shape = (self._case.ranks * self._count,)
        return jax.ShapeDtypeStruct(shape, self._dtype, sharding=self._values)

    def _compiled(
        self, function: Callable[..., Any], small: Any, outputs: Any, *, donated: bool
    ) -> Any:
        """`function(small, *buffers)` on every rank, compiled for this case's buffers."""
        buffers = self._buffers if donated else 1
        arguments = [jax.ShapeDtypeStruct(small.shape, small.dtype, sharding=self._replicated)]
        mapped = jax.shard_map(
            function,
            mesh=self._mesh,
            in_specs=(_ALL, *[_EACH] * buffers),
            out_specs=outputs,
        )
        numbers = tuple(range(1, buffers + 1)) if donated else ()
        jitted = jax.jit(mapped, donate_argnums=numbers, keep_unused=True)
        return jitted.lower(*arguments, *[self._shape()] * buffers).compile()

    def _compiled_chain(self) -> Any:
        """``(turns, *buffers) -> buffers``, `step` collectives in the body of a loop."""
        chain = partial(_chain, step=self.step)
        outputs = (_EACH,) * self._buffers
        return self._compiled(chain, np.zeros((), np.int32), outputs, donated=True)

    def _compiled_start(self) -> Callable[..., tuple[jax.Array, ...]]:
        """``(*buffers) -> buffers`` with starting values in the first, in place."""
        case = self._case
        table = np.stack([expected.start(case.dtype, case.ranks, r) for r in range(case.ranks)])
        table = table.astype(self._dtype)

        def start(values: jax.Array, *buffers: jax.Array) -> tuple[jax.Array, ...]:
            own = values[jax.lax.axis_index(RANKS)]
            times = -(-self._count // own.shape[0])
            return (jnp.tile(own, times)[: self._count], *buffers[1:])

        outputs = (_EACH,) * self._buffers
        compiled = self._compiled(start, table, outputs, donated=True)
        return partial(compiled, jax.device_put(table, self._replicated))

    def _compiled_check(self) -> Any:
        """``(wanted, buffer) -> the first wrong chunk per rank``, chunks + 1 where all is right."""
        chunk, chunks = self._chunk, self._chunks
        period = np.zeros(expected.period(self._case.ranks), self._dtype)

        def first_wrong(wanted: jax.Array, values: jax.Array) -> jax.Array:
            exact = jnp.tile(wanted, chunk // wanted.shape[0])

            def look(i: Any, first: Any) -> Any:
                begin = jnp.uint32(i) * jnp.uint32(chunk)
                wrong = jnp.any(jax.lax.dynamic_slice(values, (begin,), (chunk,)) != exact)
                return jnp.minimum(first, jnp.where(wrong, i, chunks + 1))

            rest = values[chunks * chunk :]
            first = jnp.where(jnp.any(rest != exact[: rest.shape[0]]), chunks, chunks + 1)
            found: jax.Array = jax.lax.fori_loop(0, chunks, look, first) if chunks else first
            return found.reshape(1)

        return self._compiled(first_wrong, period, _EACH, donated=False)

    def _blank(self) -> tuple[jax.Array, ...]:
        shape = (self._case.ranks * self._count,)
        blank = partial(jnp.zeros, shape, self._dtype)
        make = jax.jit(blank, out_shardings=self._values)
        return tuple(make() for _ in range(self._buffers))

    def _prove(self, text: str) -> Proof:
        """The loop holds `step` all-reduces of the payload over all ranks, and no copy of it."""
        found = hlo.collectives(text)
        kinds = hlo.count_by_kind(found)
        case = self._case
        right = [
            one
            for one in found
            if one.op == "all-reduce"
            and one.array_bytes == case.payload_bytes
            and one.group_size in (None, 0, case.ranks)
        ]
        if len(right) != self.step or len(found) != self.step:
            wrong = next((one for one in found if one not in right), None)
            got = f"{len(found)} collectives, such as {wrong.text[:300]}" if wrong else kinds
            raise MeasuringError(
                FailureKind.NOT_A_COLLECTIVE,
                f"expected {self.step} all-reduce of {case.payload_bytes} bytes "
                f"({case.dtype}) over {case.ranks} ranks, XLA compiled {got or 'none'}",
            )
        copies = hlo.payload_copies(text, case.payload_bytes)
        if copies.in_loop:
            raise MeasuringError(
                FailureKind.NOT_A_COLLECTIVE,
                f"the payload is copied between sums: {copies.in_loop[0][:300]}",
            )
        return Proof(
            collectives=kinds,
            payload_copies=0,
            copies_per_call=len(copies.per_call),
            algorithm="psum",
        )


def _sum(values: jax.Array) -> jax.Array:
    """The sum over all ranks; typed as if it still differed, since a loop wants what it gave."""
    total: jax.Array = jax.lax.pcast(jax.lax.psum(values, RANKS), RANKS, to="varying")
    return total


def _chain(turns: jax.Array, *buffers: jax.Array, step: int) -> tuple[jax.Array, ...]:
    def pair(_: Any, both: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        first, second = both
        for _ in range(step // 2):
            second = _sum(first)
            first = _sum(second)
        return first, second

    def single(_: Any, one: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        (values,) = one
        for _ in range(step):
            values = _sum(values)
        return (values,)

    body = pair if len(buffers) == 2 else single
    chained: tuple[jax.Array, ...] = jax.lax.fori_loop(0, turns, body, buffers)
    return chained
