"""Compile a case in a worker: lower it, compile it unless it is cached, and describe the program.

This module knows no framework. The cache keeps the compiler's own output, which is read again each
time. So nothing has to be compiled again after the reader was improved.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import os
import sys
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from busbw import storage, wire
from busbw.extensions.program.worker import parse_collectives
from busbw.model import variables
from busbw.model.case import Case
from busbw.model.words import FailureKind
from busbw.worker import backends
from busbw.worker.backends.base import MeasuringError, unavailable
from busbw.worker.backends.hlo import proof
from busbw.worker.backends.hlo.module import published_algorithm
from busbw.worker.backends.out_of_memory import is_out_of_memory, out_of_memory_error
from busbw.worker.serve import request_value

from .worker_programs import CompileError, LoweredProgram, OptimizedProgram
from .worker_values import CompiledProgram, Compiler, Topology

# The version of the cache's format; files of other versions are ignored.
_CACHE_FORMAT = 1


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
    """Return the compiler for the topology in the request; `compiler` is a framework's module."""
    description: Compiler = compiler.describe_compiler(request_value(request, "topology", Topology))
    return description


def compile_case(compiler: ModuleType, request: Mapping[str, Any]) -> CompiledProgram:
    """Compile the case in the request for a topology, or read the program from the folder `cache`.

    An empty `cache` means that nothing is cached. Raises MeasuringError as `compile_and_prove`
    does.
    """
    cache, case = request_value(request, "cache", str), request_value(request, "case", Case)
    topology = request_value(request, "topology", Topology)
    return compile_and_prove(compiler, case, topology, Path(cache) if cache else None)


def compile_and_prove(
    compiler: Any, case: Case, topology: Topology, cache: Path | None = None
) -> CompiledProgram:
    """Compile a case for a topology, and prove that the program does the collective of the case.

    `compiler` has the functions `describe_compiler` and `lower_case`. `cache` is the folder with
    cached programs; None to cache nothing. Raises MeasuringError if there is no compiler, if the
    compiler refuses the program, or if the program is not the collective or does not fit the
    memory.
    """
    build: Compiler = compiler.describe_compiler(topology)
    if build.missing:
        raise unavailable(build.missing)
    lowered: LoweredProgram = compiler.lower_case(case, topology)
    optimized = _load_or_compile(lowered, _cache_path(cache, lowered, topology, build))
    program = _describe_program(case, topology, lowered, optimized)
    _check_fits_memory(topology, optimized)
    return program


def _load_or_compile(lowered: LoweredProgram, path: Path | None) -> OptimizedProgram:
    """Return the program from the cache file at `path`, or compile the program and write the file.

    The error of a compiler that refuses a program is cached as well. With None nothing is cached.
    Raises MeasuringError if the compiler refuses the program, or if the file cannot be written.
    """
    output = _read_cached(path)
    if output is None:
        try:
            output = lowered.compile()
        except CompileError as error:
            output = error
        _write_cached(path, output)
    if isinstance(output, OptimizedProgram):
        return output
    if is_out_of_memory(output):
        raise out_of_memory_error(output)
    raise MeasuringError(FailureKind.COMPILE_ERROR, str(output))


def _cache_path(
    cache: Path | None, lowered: LoweredProgram, topology: Topology, build: Compiler
) -> Path | None:
    """Return the path of a program's cache file; None without a cache folder.

    The name is a hash of everything that decides the result: the program, the compiler, its flags,
    and the topology.
    """
    if cache is None:
        return None
    decides = (
        lowered.text,
        build.build,
        build.release,
        sorted(build.versions.items()),
        # These values may contain secrets, which a hash does not reveal.
        sorted(variables.compiler_variables(os.environ).items()),
        topology.layout,
        topology.chip_config,
        topology.target_config,
    )
    name = hashlib.sha256(json.dumps(decides).encode()).hexdigest()
    return cache / f"{_CACHE_FORMAT}" / name[:2] / f"{name[2:34]}.json.gz"


def _read_cached(path: Path | None) -> OptimizedProgram | CompileError | None:
    """Return the compiler's output in a cache file; None if the file is missing or damaged."""
    if path is None:
        return None
    try:
        document = wire.parse_json(gzip.decompress(storage.read(path)))
        if isinstance(document, dict) and "error" in document:
            return CompileError(wire.from_json(str, document["error"]))
        return wire.from_json(OptimizedProgram, document)
    except (storage.InputError, OSError, EOFError, zlib.error, wire.WireError):
        return None


def _write_cached(path: Path | None, output: OptimizedProgram | CompileError) -> None:
    """Write the compiler's output into a cache file; do nothing if `path` is None.

    The file appears at once and whole, because several sessions may write it. Raises MeasuringError
    if the file cannot be written.
    """
    if path is None:
        return
    document = {"error": str(output)} if isinstance(output, CompileError) else wire.to_json(output)
    try:
        storage.write(path, gzip.compress(json.dumps(document).encode(), mtime=0))
    except OSError as error:
        raise unavailable(
            f"the compiled program cannot be kept: {storage.os_error_text(error)}; with "
            "--compile-cache=none nothing is"
        ) from error


def _describe_program(
    case: Case, topology: Topology, lowered: LoweredProgram, optimized: OptimizedProgram
) -> CompiledProgram:
    """Return the collectives, operations and sizes of a compiled case or user's program.

    Raises MeasuringError if the program is not the collective of the case, or cannot be read.
    """
    sizes: dict[str, Any] = {
        "argument_bytes": optimized.argument_bytes,
        "output_bytes": optimized.output_bytes,
        "alias_bytes": optimized.alias_bytes,
        "temporary_bytes": optimized.temporary_bytes,
        "peak_bytes": optimized.peak_bytes,
    }
    if lowered.mesh is not None:
        uses = parse_collectives(optimized.text, lowered.mesh).uses
        counts = Counter({use.kind: 0 for use in uses})
        for use in uses:
            counts[use.kind] += use.times
        return CompiledProgram(
            collectives=dict(sorted(counts.items())),
            starts=any(use.is_asynchronous for use in uses),
            uses=uses,
            mesh=lowered.mesh,
            **sizes,
        )
    expected = proof.expected_loop(case, lowered.collectives_per_turn, device=topology.device)
    proved = proof.prove_loop(optimized.text, expected)
    return CompiledProgram(
        collectives=dict(Counter(line.collective for line in proved.collectives)),
        groups=f"{len(case.rank_groups)}x{case.group_size}",
        algorithm=published_algorithm(proved.collectives),
        starts=proved.is_asynchronous,
        around=dict(Counter(line.op for line in proved.payload_writers)),
        around_loop=dict(Counter(line.op for line in proved.payload_writers_per_call)),
        **sizes,
    )


def _check_fits_memory(topology: Topology, optimized: OptimizedProgram) -> None:
    """Raise MeasuringError OUT_OF_MEMORY if a program needs more than the memory of the chip."""
    needed = (
        optimized.argument_bytes
        + optimized.output_bytes
        - optimized.alias_bytes
        + optimized.temporary_bytes
    )
    if topology.memory_bytes is not None and needed > topology.memory_bytes:
        raise MeasuringError(
            FailureKind.OUT_OF_MEMORY,
            f"the program takes {needed} bytes, the chip has {topology.memory_bytes}",
            needed_bytes=needed,
            available_bytes=topology.memory_bytes,
            predicted=True,
        )
