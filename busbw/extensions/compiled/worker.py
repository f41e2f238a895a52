"""Compiling a case: lower, compile unless it is in the cache, read the result.

Knows the order and no framework. The cache holds a compiler's own output, which is read again each
time, so that a better reader needs no new compilation.
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
from busbw.extensions.program.worker import collectives_of
from busbw.model import variables
from busbw.model.case import Case
from busbw.model.words import FailureKind
from busbw.worker import backends
from busbw.worker.backends.base import MeasuringError, unavailable
from busbw.worker.backends.hlo import proof
from busbw.worker.backends.hlo.module import published_algorithm
from busbw.worker.backends.out_of_memory import is_out_of_memory, out_of_memory_error
from busbw.worker.serve import request_value

from .worker_programs import CompileError, Lowered, Optimized
from .worker_values import Compiled, Compiler, Topology

# The cache's format; files of another format are ignored.
_FORM = 1


def open_session(options: Any) -> ModuleType:
    """Import what a framework has to compile. Raises MeasuringError where it is too old."""
    # The private folder that this process was started from, which is removed afterwards.
    os.environ.setdefault("TPU_LOG_DIR", os.path.join(sys.path[0], "tpu_logs"))
    versions = backends.load_module(options.framework, "versions")
    if versions is not None:
        versions.check_framework_version()
    return importlib.import_module(f"{__name__}_{options.framework}")


def describe(compiler: ModuleType, request: Mapping[str, Any]) -> Compiler:
    """Describe the compiler for a topology."""
    description: Compiler = compiler.describe(request_value(request, "topology", Topology))
    return description


def compile_case(compiler: ModuleType, request: Mapping[str, Any]) -> Compiled:
    """Compile a case for a topology, or take the program from the folder `cache`, if any.

    Raises MeasuringError.
    """
    cache, case = request_value(request, "cache", str), request_value(request, "case", Case)
    topology = request_value(request, "topology", Topology)
    return compiled(compiler, case, topology, Path(cache) if cache else None)


def compiled(compiler: Any, case: Case, topology: Topology, cache: Path | None = None) -> Compiled:
    """Compile a case; `compiler` has `describe` and `lowered`. Raises MeasuringError."""
    build: Compiler = compiler.describe(topology)
    if build.missing:
        raise unavailable(build.missing)
    lowered: Lowered = compiler.lowered(case, topology)
    optimized = _optimized(lowered, _path(cache, lowered, topology, build))
    program = _read(case, topology, lowered, optimized)
    _check_memory(topology, optimized)
    return program


def _optimized(lowered: Lowered, path: Path | None) -> Optimized:
    """Take a program from the cache, or compile it; refusals are cached as well."""
    kept = _kept(path)
    if kept is None:
        try:
            kept = lowered.compiled()
        except CompileError as error:
            kept = error
        _keep(path, kept)
    if isinstance(kept, Optimized):
        return kept
    if is_out_of_memory(kept):
        raise out_of_memory_error(kept)
    raise MeasuringError(FailureKind.COMPILE_ERROR, str(kept))


def _path(cache: Path | None, lowered: Lowered, topology: Topology, build: Compiler) -> Path | None:
    """Name a file by all that decides what comes out: program, compiler, flags, topology."""
    if cache is None:
        return None
    decides = (
        lowered.text,
        build.build,
        build.release,
        sorted(build.versions.items()),
        # Never to be recorded: these are whole values.
        sorted(variables.compiler_variables(os.environ).items()),
        topology.layout,
        topology.chip_config,
        topology.target_config,
    )
    name = hashlib.sha256(json.dumps(decides).encode()).hexdigest()
    return cache / f"{_FORM}" / name[:2] / f"{name[2:34]}.json.gz"


def _kept(path: Path | None) -> Optimized | CompileError | None:
    """Read the cached output; None if there is none, or if it is cut or damaged."""
    if path is None:
        return None
    try:
        document = wire.parse_json(gzip.decompress(storage.read(path)))
        if isinstance(document, dict) and "error" in document:
            return CompileError(wire.from_json(str, document["error"]))
        return wire.from_json(Optimized, document)
    except (storage.InputError, OSError, EOFError, zlib.error, wire.WireError):
        return None


def _keep(path: Path | None, kept: Optimized | CompileError) -> None:
    """Write an output as a whole: several sessions write at once. Raises MeasuringError."""
    if path is None:
        return
    document = {"error": str(kept)} if isinstance(kept, CompileError) else wire.to_json(kept)
    try:
        storage.write(path, gzip.compress(json.dumps(document).encode(), mtime=0))
    except OSError as error:
        raise unavailable(
            f"the compiled program cannot be kept: {storage.os_error_text(error)}; with "
            "--compile-cache=none nothing is"
        ) from error


def _read(case: Case, topology: Topology, lowered: Lowered, optimized: Optimized) -> Compiled:
    """Raise MeasuringError for a program that is not the collective, or that cannot be read."""
    sizes: dict[str, Any] = {
        "argument_bytes": optimized.argument_bytes,
        "output_bytes": optimized.output_bytes,
        "alias_bytes": optimized.alias_bytes,
        "temporary_bytes": optimized.temporary_bytes,
        "peak_bytes": optimized.peak_bytes,
    }
    if lowered.mesh is not None:
        uses = collectives_of(optimized.text, lowered.mesh).uses
        counts = Counter({use.kind: 0 for use in uses})
        for use in uses:
            counts[use.kind] += use.times
        return Compiled(
            collectives=dict(sorted(counts.items())),
            starts=any(use.asynchronous for use in uses),
            uses=uses,
            mesh=lowered.mesh,
            **sizes,
        )
    expected = proof.expected_loop(case, lowered.step, device=topology.device)
    proved = proof.prove_loop(optimized.text, expected)
    return Compiled(
        collectives=dict(Counter(line.collective for line in proved.collectives)),
        groups=f"{len(case.rank_groups)}x{case.group_size}",
        algorithm=published_algorithm(proved.collectives),
        starts=proved.is_asynchronous,
        around=dict(Counter(line.op for line in proved.payload_writers)),
        around_loop=dict(Counter(line.op for line in proved.payload_writers_per_call)),
        **sizes,
    )


def _check_memory(topology: Topology, optimized: Optimized) -> None:
    """Raise MeasuringError for a program that does not fit the chip."""
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
