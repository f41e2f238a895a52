"""Compile a case in a worker: lower it, compile it unless it is cached, and describe the program.

This module knows no framework. The cache keeps the HLO that the compiler wrote, and the HLO is read
again each time. So a change of the reader makes no cached program useless.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib
import json
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from busbw import storage, wire
from busbw.extensions.program.worker import parse_collectives
from busbw.model import variables
from busbw.model.case import Case, convert_to
from busbw.model.words import FailureKind
from busbw.worker import backends
from busbw.worker.backends.base import MeasuringError, unavailable
from busbw.worker.backends.hlo import proof
from busbw.worker.backends.hlo.module import published_algorithm
from busbw.worker.serve import request_value

from .worker_values import CompiledProgram, Compiler, Topology


@dataclass(frozen=True, kw_only=True)
class OptimizedProgram:
    """The optimized HLO of a program, and the memory of a rank that the program needs.

    `needed_bytes` is the memory for arguments, outputs and temporary values. `temporary_bytes` is
    the memory for temporary values alone. `peak_bytes` is the largest amount of memory in use at
    any moment; 0 if the compiler does not report it.
    """

    text: str
    needed_bytes: int
    temporary_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class LoweredProgram:
    """A program before it is compiled; `text` is its StableHLO.

    `collectives_per_turn` is the number of collectives in a turn of the program's loop, or in the
    whole program if it has no loop. `compile` compiles the program, and raises MeasuringError if
    the compiler refuses it. `mesh` maps the axis names of a user's program to their extents. It is
    None for a program of busbw.
    """

    text: str
    collectives_per_turn: int
    compile: Callable[[], OptimizedProgram]
    mesh: Mapping[str, int] | None = None


# The version of the cache's format; files of other versions are ignored.
_CACHE_FORMAT = 2


def open_session(options: Any) -> ModuleType:
    """Return the module that compiles for the framework of the worker.

    Raises MeasuringError if the framework is too old.
    """
    # libtpu writes its logs into the private folder of this process, which is removed at the end.
    os.environ.setdefault("TPU_LOG_DIR", os.path.join(sys.path[0], "tpu_logs"))
    versions = backends.load_module(options.framework, "versions")
    if versions is not None:
        versions.check_framework_version()
    return importlib.import_module(f"{__name__}_{options.framework}")


def describe(compiler: ModuleType, request: Mapping[str, Any]) -> Compiler:
    """Find the compiler for the topology in the request, and return its release and its devices.

    `compiler` is the module of the framework that compiles, such as `worker_jax`.
    """
    description: Compiler = compiler.describe_compiler(request_value(request, "topology", Topology))
    return description


def compile_case(compiler: Any, request: Mapping[str, Any]) -> CompiledProgram:
    """Compile the case in the request for its topology, and prove that it does its collective.

    `compiler` is a framework's module, with the functions `describe_compiler` and `lower_case`. The
    request also names the folder `cache` of cached programs; empty to cache nothing. Raises
    MeasuringError if the compiler refuses the program, or if the program is not the collective or
    does not fit into the memory of the chip.
    """
    cache, case = request_value(request, "cache", str), request_value(request, "case", Case)
    topology = request_value(request, "topology", Topology)
    lowered: LoweredProgram = compiler.lower_case(case, topology)
    name = cache and _cached_name(lowered, topology, compiler.describe_compiler(topology))
    optimized = _load_or_compile(lowered, Path(cache) / name if cache else None)
    program = _describe_program(case, topology, lowered, optimized)
    _check_fits_memory(topology, optimized)
    return program


def _cached_name(lowered: LoweredProgram, topology: Topology, compiler: Compiler) -> str:
    """Return the name of a program's file below the folder of cached programs.

    The name contains a hash of everything that affects the result: the program, the compiler, its
    flags, and the topology.
    """
    inputs = (
        lowered.text,
        compiler.build,
        compiler.release,
        sorted(compiler.versions.items()),
        # These values may contain secrets, which a hash does not reveal.
        sorted(variables.compiler_variables(os.environ).items()),
        topology.layout,
        topology.chip_config,
        topology.target_config,
    )
    name = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()
    return f"{_CACHE_FORMAT}/{name[:2]}/{name[2:34]}.json.gz"


def _load_or_compile(lowered: LoweredProgram, path: Path | None) -> OptimizedProgram:
    """Read the program from the cache file at `path`, or compile the program and write the file.

    A file that is missing or damaged is written again. Nothing is cached if `path` is None. Raises
    MeasuringError if the compiler refuses the program, or if the file cannot be written.
    """
    if path is not None:
        damage = storage.InputError, OSError, EOFError, zlib.error, wire.WireError
        with contextlib.suppress(*damage):
            document = wire.parse_json(gzip.decompress(storage.read(path)))
            return wire.from_json(OptimizedProgram, document)
    optimized = lowered.compile()
    if path is not None:
        content = json.dumps(wire.to_json(optimized)).encode()
        try:
            storage.write(path, gzip.compress(content, mtime=0))
        except OSError as error:
            raise unavailable(
                f"the compiled program cannot be kept: {storage.error_text(error)}; with "
                "--compile-cache=none nothing is"
            ) from error
    return optimized


def _describe_program(
    case: Case, topology: Topology, lowered: LoweredProgram, optimized: OptimizedProgram
) -> CompiledProgram:
    """Return the collectives, operations and sizes of a compiled case or user's program.

    Raises MeasuringError if the program is not the collective of the case, or cannot be read.
    """
    if lowered.mesh is not None:
        uses = parse_collectives(optimized.text, lowered.mesh).uses
        counts = Counter[str]()
        for use in uses:
            counts[use.kind] += use.times
        return convert_to(
            CompiledProgram,
            optimized,
            collectives=dict(sorted(counts.items())),
            starts=any(use.is_asynchronous for use in uses),
            uses=uses,
        )
    expected = proof.ExpectedLoop(case, lowered.collectives_per_turn, topology.device)
    proved = proof.prove_loop(optimized.text, expected)
    return convert_to(
        CompiledProgram,
        optimized,
        collectives=dict(Counter(line.collective for line in proved.collectives)),
        groups=f"{len(case.rank_groups)}x{case.group_size}",
        algorithm=published_algorithm(proved.collectives),
        starts=proved.is_asynchronous,
        around=dict(Counter(line.op for line in proved.payload_writers)),
        around_loop=dict(Counter(line.op for line in proved.payload_writers_per_call)),
    )


def _check_fits_memory(topology: Topology, optimized: OptimizedProgram) -> None:
    """Raise MeasuringError OUT_OF_MEMORY if a program needs more than the memory of the chip."""
    needed = optimized.needed_bytes
    if topology.memory_bytes is not None and needed > topology.memory_bytes:
        raise MeasuringError(
            FailureKind.OUT_OF_MEMORY,
            f"the program takes {needed} bytes, the chip has {topology.memory_bytes}",
            needed_bytes=needed,
            available_bytes=topology.memory_bytes,
            is_predicted=True,
        )
