"""What a compiler wrote down of how it does a collective: read, never guessed.

Text in, values out; standard library only. libtpu publishes its choice as JSON in a collective's
``backend_config``; what it leaves out is not published, and nothing is put in its place. XLA for
GPUs writes all fields there: one at its default says nothing, whichever library then does the work.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from busbw.model import Case, Compiled

from .text import Instruction

if TYPE_CHECKING:
    from busbw.worker.backends.base import Optimized

    from .proof import Proved

_CONFIG = "backend_config="
_COUNTS = re.compile(r"\b(colors|phases):\s*(\d+)")
_PLAIN = ("emitter", "strategy")

# What a GPU's collective says of itself: the field, our name of it, and how its values begin.
_OF_GPUS = (
    ("kernel_strategy", "strategy", "KERNEL_STRATEGY_"),
    ("backend", "backend", ""),
    ("collectives_mode", "mode", "COLLECTIVES_"),
)
_SAYS_NOTHING = ("", "DEFAULT", "MODE_INVALID")


def compiled_of(found: Proved, case: Case, optimized: Optimized) -> Compiled:
    """What was compiled, as values."""
    return Compiled(
        collectives=dict(Counter(one.collective for one in found.collectives)),
        groups=f"{len(case.groups)}x{case.group_size}",
        algorithm=algorithm_of(found.collectives),
        starts=found.starts,
        around=dict(Counter(one.op for one in found.beside)),
        around_loop=dict(Counter(one.op for one in found.once)),
        argument_bytes=optimized.argument_bytes,
        output_bytes=optimized.output_bytes,
        alias_bytes=optimized.alias_bytes,
        temporary_bytes=optimized.temporary_bytes,
        peak_bytes=optimized.peak_bytes,
    )


def algorithm_of(collectives: Sequence[Instruction]) -> dict[str, str]:
    """What the compiler published of the collectives' algorithm; empty where it did not.

    Several collectives of a program that differ have all their values, joined by a plus sign.
    """
    found: dict[str, list[str]] = {}
    for one in collectives:
        for name, value in _published(_config_of(one.text)):
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return {name: "+".join(values) for name, values in sorted(found.items())}


def is_waited_for_at_once(start: Instruction) -> bool:
    """Whether a GPU's collective that is started has nothing between it and its end."""
    return _of_gpu(_config_of(start.text)).get("is_sync") is True


def _config_of(line: str) -> Mapping[str, Any]:
    """The JSON behind ``backend_config=``; empty where there is none or something else."""
    _, there, rest = line.partition(_CONFIG)
    if not there or not rest.startswith("{"):
        return {}
    try:
        config, _ = json.JSONDecoder().raw_decode(rest)
    except json.JSONDecodeError:
        return {}
    return config if isinstance(config, dict) else {}


def _published(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    chosen = config.get("collective_algorithm_config")
    if isinstance(chosen, dict):
        for name in _PLAIN:
            if chosen.get(name):
                yield name, str(chosen[name])
        yield from _COUNTS.findall(str(chosen.get("debug", "")))
    if config.get("device_type") == "DEVICE_TYPE_SPARSECORE":
        yield "offload", "SparseCore"
    yield from _rings(config.get("collective_offload_config"))
    of_gpu = _of_gpu(config)
    for field, name, begin in _OF_GPUS:
        value = str(of_gpu.get(field, "")).removeprefix(begin)
        if value not in _SAYS_NOTHING:
            yield name, value


def _of_gpu(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What XLA for GPUs writes of a collective; empty where it did not."""
    found = config.get("collective_backend_config")
    return found if isinstance(found, dict) else {}


def _rings(offload: Any) -> Iterator[tuple[str, str]]:
    """Colors and phases of a collective on the SparseCores, as they are listed there."""
    for one in offload.values() if isinstance(offload, dict) else ():
        strategy = one.get("ici_strategy_config") if isinstance(one, dict) else None
        colors = strategy.get("color_strategies") if isinstance(strategy, dict) else None
        if not isinstance(colors, list):
            continue
        yield "colors", str(len(colors))
        phases = [color.get("phase_rings", ()) for color in colors if isinstance(color, dict)]
        yield "phases", str(max(map(len, phases), default=0))
        kinds = {str(ring.get("ring_type", "")) for rings in phases for ring in rings}
        yield "rings", "+".join(sorted(kind.removeprefix("ICI_RING_TYPE_") for kind in kinds))
