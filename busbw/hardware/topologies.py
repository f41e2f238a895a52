"""Names of topologies, such as ``v5e:2x4`` and ``h100:8``, and what a compiler is told of each."""

from __future__ import annotations

import re

from busbw.model import Device, Topology

from .gpus import GPUS, Gpu
from .slices import SLICES

# One of each chip: of TPUs 8 ranks where that is a shape, of GPUs one host.
USUAL_TOPOLOGIES = (
    "v2:2x2",
    "v3:2x2",
    "v4:2x2x2",
    "v5e:2x4",
    "v5p:2x2x2",
    "v6e:2x4",
    "tpu7x:2x2x1",
    "a100:8",
    "h100:8",
    "h200:8",
    "b200:8",
    "gb200:8",
)

_USUAL_RANKS = 8

_GPU_COUNT = re.compile(r"(?:(?P<hosts>[1-9]\d?)x)?(?P<each>[1-9]\d?)")


def known_topologies() -> tuple[str, ...]:
    """Every name that `topology_of` takes, of GPUs those of one host with 8 ranks."""
    slices = [f"{one.name}:{shape}" for one in SLICES.values() for shape in one.shapes]
    return (*slices, *(f"{name}:{_USUAL_RANKS}" for name in GPUS))


def topology_of(name: str) -> Topology:
    """The Topology called `name`.

    Raises ValueError with what is known: of a known chip its shapes, otherwise all chips.
    """
    chip, _, layout = name.partition(":")
    if chip in SLICES:
        return _slice(name, chip, layout)
    if chip in GPUS:
        return _gpus(name, GPUS[chip], layout)
    raise ValueError(
        f"{name!r}: no chip is called {chip!r}; known are {', '.join((*SLICES, *GPUS))}, "
        "such as v5e:2x4 and h100:8"
    )


def _slice(name: str, chip: str, layout: str) -> Topology:
    generation = SLICES[chip]
    if layout not in generation.shapes:
        raise ValueError(
            f"{name!r}: {chip} is known as {', '.join(f'{chip}:{s}' for s in generation.shapes)}"
        )
    return Topology(
        name=name,
        device=Device.TPU,
        device_kind=generation.device_kind,
        layout=name,
        ranks=generation.ranks(layout),
        chip_config=generation.chip_config,
    )


def _gpus(name: str, gpu: Gpu, layout: str) -> Topology:
    match = _GPU_COUNT.fullmatch(layout)
    each = int(match["each"]) if match else 0
    hosts = int(match["hosts"] or 1) if match else 0
    if not 1 <= each <= gpu.most_ranks or hosts * each < 2:
        raise ValueError(
            f"{name!r}: {gpu.name} is known with 2 to {gpu.most_ranks} GPUs in a host, such as "
            f"{gpu.name}:8, and with several hosts, such as {gpu.name}:2x8 for two of 8 GPUs"
        )
    return Topology(
        name=name,
        device=Device.GPU,
        device_kind=gpu.device_kind,
        layout=f"1x{hosts}x{each}",
        ranks=hosts * each,
        hosts=hosts,
        target_config=gpu.target_config(),
        memory_bytes=gpu.memory_bytes,
    )
