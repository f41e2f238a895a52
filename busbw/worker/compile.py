"""Compiling a case: lower, compile unless it is in the cache, read the result.

Knows the order and no framework. The cache holds a compiler's own output, which is read again each
time, so that a better reader needs no new compilation.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw import storage, wire
from busbw.model import variables
from busbw.model.case import Case
from busbw.model.launch import Compiled, Failure, LaunchId
from busbw.model.machine import Compiler, Topology
from busbw.model.words import FailureKind
from busbw.program import inventory
from busbw.worker.backends.base import (
    AbstractCompiler,
    CompileError,
    Lowered,
    MeasuringError,
    Optimized,
    unavailable,
)
from busbw.worker.backends.framework import is_out_of_memory, out_of_memory
from busbw.worker.backends.hlo import proof

# The cache's format; files of another format are ignored.
_FORM = 1


@dataclass
class CompileSession:
    """Compiles case after case with one compiler; `cache` is where programs are kept, if at all."""

    compiler: AbstractCompiler
    launch: LaunchId
    cache: Path | None = None

    def compile(self, case: Case, topology: Topology) -> Compiled | Failure:
        try:
            build = self.compiler.describe(topology)
            if build.missing:
                raise unavailable(build.missing)
            lowered = self.compiler.lowered(case, topology)
            optimized = self._optimized(lowered, topology, build)
            found = _read(case, topology, lowered, optimized)
            _check_memory(topology, optimized)
            return found
        except MeasuringError as error:
            return error.failure(self.launch)

    def _optimized(self, lowered: Lowered, topology: Topology, build: Compiler) -> Optimized:
        """From the cache if it is there; refusals are cached as well."""
        path = self._path(lowered, topology, build)
        kept = _kept(path)
        if kept is None:
            try:
                kept = lowered.compiled()
            except CompileError as error:
                kept = error
            _keep(path, kept)
        if isinstance(kept, Optimized):
            return kept
        raise refused(kept)

    def _path(self, lowered: Lowered, topology: Topology, build: Compiler) -> Path | None:
        """Named by all that decides what comes out: program, compiler, flags, topology."""
        if self.cache is None:
            return None
        decides = (
            lowered.text,
            build.build,
            build.release,
            sorted(build.versions.items()),
            # Never to be recorded: these are whole values.
            sorted(variables.of_compilers(os.environ).items()),
            topology.layout,
            topology.chip_config,
            topology.target_config,
        )
        name = hashlib.sha256(json.dumps(decides).encode()).hexdigest()
        return self.cache / f"{_FORM}" / name[:2] / f"{name[2:34]}.json.gz"


def _kept(path: Path | None) -> Optimized | CompileError | None:
    """The cached output; None if there is none, or if it is cut or damaged."""
    if path is None:
        return None
    try:
        document = wire.parsed(_unpacked(storage.read(path)))
        if isinstance(document, dict) and "error" in document:
            return CompileError(wire.from_json(str, document["error"]))
        return wire.from_json(Optimized, document)
    except (storage.InputError, zlib.error, wire.WireError):
        return None


# A program as text; the largest that was seen has a tenth of it.
_MOST_UNPACKED = 1 << 30


def _unpacked(packed: bytes) -> bytes:
    """Decompress what `_keep` wrote. Raises zlib.error for anything else, and for too much."""
    unpacking = zlib.decompressobj(wbits=31)
    content = unpacking.decompress(packed, _MOST_UNPACKED)
    if not unpacking.eof:
        raise zlib.error("it is cut, or unpacks to too many bytes")
    return content


def _keep(path: Path | None, kept: Optimized | CompileError) -> None:
    """Whole or not at all: several sessions write at once. Raises MeasuringError."""
    if path is None:
        return
    document = {"error": str(kept)} if isinstance(kept, CompileError) else wire.to_json(kept)
    try:
        storage.write(path, gzip.compress(json.dumps(document).encode(), mtime=0))
    except OSError as error:
        raise unavailable(
            f"the compiled program cannot be kept: {storage.error_text(error)}; with "
            "--compile-cache=none nothing is"
        ) from error


def _read(case: Case, topology: Topology, lowered: Lowered, optimized: Optimized) -> Compiled:
    """Raises MeasuringError for a program that is not the collective, or that cannot be read."""
    if lowered.mesh is not None:
        return _program(optimized, lowered.mesh)
    wanted = proof.wanted(case, lowered.step, device=topology.device)
    return proof.compiled_of(proof.find(optimized.text, wanted), case, optimized)


def _check_memory(topology: Topology, optimized: Optimized) -> None:
    """Raises MeasuringError for a program that does not fit the chip."""
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


def program_of(lowered: Lowered) -> Compiled:
    """Of a program of the user's, compiled now. Raises MeasuringError."""
    try:
        return _program(lowered.compiled(), lowered.mesh or {})
    except CompileError as error:
        raise refused(error) from error


def refused(error: CompileError) -> MeasuringError:
    if is_out_of_memory(error):
        return out_of_memory(error)
    return MeasuringError(FailureKind.COMPILE_ERROR, str(error))


def _program(optimized: Optimized, mesh: Mapping[str, int]) -> Compiled:
    """Raises MeasuringError for a text that cannot be read."""
    try:
        # A program for one device names no number of ranks.
        uses = inventory.read(optimized.text, mesh, os.getcwd(), ranks=math.prod(mesh.values()))
    except inventory.ProgramError as error:
        raise MeasuringError(FailureKind.PROGRAM_ERROR, str(error)) from error
    counts = Counter({one.kind: 0 for one in uses})
    for one in uses:
        counts[one.kind] += one.times
    return Compiled(
        collectives=dict(sorted(counts.items())),
        groups="",
        starts=any(one.asynchronous for one in uses),
        argument_bytes=optimized.argument_bytes,
        output_bytes=optimized.output_bytes,
        alias_bytes=optimized.alias_bytes,
        temporary_bytes=optimized.temporary_bytes,
        peak_bytes=optimized.peak_bytes,
        uses=uses,
        mesh=mesh,
    )
