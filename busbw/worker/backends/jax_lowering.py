"""The chain of a case as a lowered program, which is compiled here or for chips that are not there.

What is measured and what is compiled ahead of time come through this one door.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from busbw.model import Case

from . import jax_versions
from .jax_forms import Form


def shapes(case: Case, mesh: jax.sharding.Mesh, form: Form) -> list[jax.ShapeDtypeStruct]:
    """The buffers of all ranks together, laid out over the mesh."""
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    return [
        jax.ShapeDtypeStruct((case.ranks * count,), jnp.dtype(case.dtype), sharding=sharding)
        for count in form.counts
    ]


def lowered(case: Case, mesh: jax.sharding.Mesh, form: Form) -> Any:
    """``(turns, *buffers) -> (rounds counted, *buffers)``, not compiled yet."""
    everywhere, each = PartitionSpec(), PartitionSpec(mesh.axis_names)
    turns = jax.ShapeDtypeStruct((), np.int32, sharding=NamedSharding(mesh, everywhere))
    buffers = shapes(case, mesh, form)
    mapped = jax_versions.shard_map(
        form.function,
        mesh=mesh,
        in_specs=(everywhere, *[each] * len(buffers)),
        out_specs=(everywhere, *[each] * form.outputs),
    )
    numbers = tuple(range(1, len(buffers) + 1)) if form.donated else ()
    return jax.jit(mapped, donate_argnums=numbers, keep_unused=True).lower(turns, *buffers)


def memory_bytes(compiled: Any) -> int | None:
    """What one rank's part of a program takes, arguments and results included."""
    stats = compiled.memory_analysis()
    if stats is None:
        return None
    return int(
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes
    )
