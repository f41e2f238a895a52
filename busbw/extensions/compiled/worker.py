"""Compile a case in a worker: lower it, compile it unless it is cached, and describe the program.

The values that describe topologies, compilers and programs are here, too. This module knows no
framework. The cache keeps the HLO that the compiler wrote, and the HLO is read again each time. So
a change of the reader makes no cached program useless.
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
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from busbw import storage, wire
from busbw.extensions.program.worker import parse_collectives
from busbw.extensions.program.worker_values import CollectiveUse, Difference
from busbw.model import variables
from busbw.model.case import Case, CaseSpec, convert_to
from busbw.model.field_types import Date, Natural
from busbw.model.machine import DeviceSet
from busbw.model.verdict import Verdict
from busbw.model.words import Device, FailureKind, plural
from busbw.worker import backends
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.hlo import proof
from busbw.worker.backends.hlo.module import algorithm_in_backend_config
from busbw.worker.serve import request_value

# The variable that tells a worker the release of its compiler, which a bare library does not say.
RELEASE_VARIABLE = "BUSBW_COMPILER_RELEASE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """Chips for which a program can be compiled without having them, such as ``v5e:2x4``.

    `layout` is the topology in the notation of the compiler. `chip_config` is libtpu's name for a
    way to use the cores of a chip; empty for its default. `target_config` describes a GPU to XLA.
    `memory_bytes` is the memory of a GPU; None for a TPU, because libtpu knows the memory.
    """

    name: str
    device: Device
    device_kind: str
    layout: str
    ranks: int
    hosts: int = 1
    chip_config: str = ""
    target_config: str = ""
    memory_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiler:
    """A compiler for a topology, as it is installed for a worker.

    `release` is the name and version of its package, such as ``libtpu 0.0.42.1``. `build` is the
    compiler's own description of its version: two compilers are the same if their `build` is equal.
    `versions` are the versions of packages, and `flags` the environment variables that affect the
    compiler. `devices` are the devices of the topology as the framework sees them. If there is no
    compiler, `devices` is None, and `missing` is the reason.
    """

    topology: str
    release: str = ""
    build: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    devices: DeviceSet | None = None
    missing: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledProgram:
    """The program that a compiler made for a Case. Sizes are the bytes that a rank needs.

    `collectives` counts the collectives in a turn of the loop by kind. `groups` is the number of
    groups in which each collective runs, and the number of ranks in a group, such as ``1x8``.
    `algorithm` maps the properties of the algorithm that the compiler publishes to their values; it
    is empty if the compiler publishes nothing. `starts` says whether the collective is
    asynchronous: an instruction starts it, and another instruction waits for its end. `around`
    counts, by kind, the other operations on the payload in a turn of the loop. `around_loop` counts
    such operations outside the loop, which run once in a call.

    `temporary_bytes` is the memory for temporary values. `peak_bytes` is the largest amount of
    memory in use at any moment; 0 if the compiler does not report it.

    For a user's program `uses` are all its collectives, `collectives` counts the collectives in a
    step, and `groups` is empty.
    """

    collectives: Mapping[str, Natural]
    groups: str = ""
    algorithm: Mapping[str, str] = field(default_factory=dict)
    starts: bool = False
    around: Mapping[str, Natural] = field(default_factory=dict)
    around_loop: Mapping[str, Natural] = field(default_factory=dict)
    temporary_bytes: Natural = 0
    peak_bytes: Natural = 0
    uses: tuple[CollectiveUse, ...] = ()

    @property
    def algorithm_text(self) -> str:
        """The algorithm in words; for a user's program the number of its collectives."""
        if not self.groups:
            return f"{plural(sum(self.collectives.values()), 'collective')} per step"
        if not self.algorithm:
            return "not published"
        return ", ".join(f"{name} {text}" for name, text in sorted(self.algorithm.items()))


@dataclass(frozen=True, kw_only=True)
class CompileSpec(CaseSpec):
    """A CaseSpec to be compiled for the chips of a topology; `topology` is its name.

    `compiler` is the label of the compiler; empty if the session has a single compiler.
    """

    topology: str
    compiler: str = ""

    @property
    def id(self) -> str:
        """The pytest id, which begins with the topology, such as ``v5e:2x4``."""
        return "-".join(filter(None, (self.topology, self.compiler, super().id)))

    @property
    def kind_names(self) -> tuple[str, ...]:
        return (self.topology, *super().kind_names)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledBaseline:
    """The program that the compiler `release` made for a Case on `date`, as it was stored.

    `compiled` is None if the program did not fit into the memory of the chip.
    """

    case: Case
    compiled: CompiledProgram | None
    date: Date
    release: str

    @property
    def text(self) -> str:
        """The algorithm in words, or ``out of memory``."""
        return self.compiled.algorithm_text if self.compiled else "out of memory"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledComparison:
    """The program `now` that the compiler `release` made for a case, compared with its baseline.

    `now` is None if nothing was compiled or the compiler failed. `baseline` is None if nothing is
    stored.
    """

    release: str = ""
    now: CompiledProgram | None = None
    baseline: CompiledBaseline | None = None
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CompiledVerdict(Verdict):
    """The verdict on a case that was compiled."""

    spec: CompileSpec
    program: CompiledComparison = field(default_factory=CompiledComparison)

    @property
    def family_name(self) -> str:
        return f"{self.spec.topology}: {super().family_name}"


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
    if topology.memory_bytes is not None and optimized.needed_bytes > topology.memory_bytes:
        raise MeasuringError(
            FailureKind.OUT_OF_MEMORY,
            f"the program takes {optimized.needed_bytes} bytes, "
            f"the chip has {topology.memory_bytes}",
            needed_bytes=optimized.needed_bytes,
            available_bytes=topology.memory_bytes,
            is_predicted=True,
        )
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
    MeasuringError if the compiler refuses the program, and OSError if the file cannot be written.
    """
    if path is not None:
        damage = storage.InputError, OSError, EOFError, zlib.error, wire.WireError
        with contextlib.suppress(*damage):
            document = wire.parse_json(gzip.decompress(storage.read(path)))
            return wire.from_json(OptimizedProgram, document)
    optimized = lowered.compile()
    if path is not None:
        content = json.dumps(wire.to_json(optimized)).encode()
        storage.write(path, gzip.compress(content, mtime=0))
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
        algorithm=algorithm_in_backend_config(proved.collectives),
        starts=proved.is_asynchronous,
        around=dict(Counter(line.op for line in proved.payload_writers)),
        around_loop=dict(Counter(line.op for line in proved.payload_writers_per_call)),
    )
