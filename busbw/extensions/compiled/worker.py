"""Compile a case in a worker, unless its program is cached, and describe the compiled program.

The values that describe topologies, compilers and programs are here, too. This module knows no
framework. The cache keeps the HLO that the compiler wrote, and the HLO is read again each time. So
cached programs stay valid if the code that reads HLO changes.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from busbw import storage, wire
from busbw.extensions.program.worker import parse_collectives
from busbw.extensions.program.worker_values import CollectiveUse, ProgramDifference
from busbw.model import variables
from busbw.model.case import Case, CaseSpec, dataclass_from
from busbw.model.field_types import Date, Natural
from busbw.model.machine import DeviceSet
from busbw.model.verdict import Verdict
from busbw.model.words import DeviceClass, FailureKind, plural
from busbw.worker import backends
from busbw.worker.backends import hlo_proof
from busbw.worker.backends.base import MeasuringError
from busbw.worker.backends.hlo import algorithm_in_backend_config
from busbw.worker.serve import request_value

# The variable that tells a worker with a simulated compiler the release of this compiler.
RELEASE_VARIABLE = "BUSBW_COMPILER_RELEASE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """Chips for which a program can be compiled without having them, such as ``v5e:2x4``.

    Attributes:
        name: The name by which --topology selects the chips.
        device: The class of the chips: TPU or GPU.
        device_kind: JAX's name for the chip.
        ranks: The number of devices, each of which is a rank.
        hosts: The number of hosts that hold the chips.
        memory_bytes: The memory of a GPU; None for a TPU, because libtpu knows the memory.
        description_arguments: The arguments with which `jax.experimental.topologies` describes the
            chips, by name.

    """

    name: str
    device: DeviceClass
    device_kind: str
    ranks: int
    hosts: int = 1
    memory_bytes: int | None = None
    description_arguments: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiler:
    """The compiler that a worker uses for a topology, or the reason why the worker has none.

    Attributes:
        topology: The name of the topology.
        release: The name and version of the compiler's package, such as ``libtpu 0.0.42.1``.
        build: The compiler's own description of its version. Two compilers are the same if their
            `build` is equal.
        versions: Maps the name of each package to its version.
        flags: Maps the names of the environment variables that affect the compiler to their values.
        devices: The devices of the topology as the framework sees them; None without a compiler.
        missing: The reason why the worker has no compiler for the topology; empty if it has a
            compiler.

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
    """The program that a compiler made for a Case, described by its collectives and its memory.

    Attributes:
        collectives: Maps each kind of collective to the number of such collectives in a turn of the
            program's loop or, for a user's program, in a step.
        groups: The number of groups in which each collective runs, and the number of ranks in a
            group, such as ``1x8``; empty for a user's program.
        algorithm: Maps the properties of the algorithm that the compiler publishes to their values;
            empty if the compiler publishes nothing.
        starts: Whether the collective is asynchronous: an instruction starts the collective, and
            another instruction waits for its end.
        around: Maps each kind of other operation on the payload to the number of such operations
            in a turn of the loop.
        around_loop: The same for operations outside the loop, which run once in a call.
        temporary_bytes: The memory that a rank needs for temporary values.
        peak_bytes: The largest amount of memory of a rank that is in use at any moment; 0 if the
            compiler does not report this amount.
        uses: All collectives of a user's program; empty for a program of busbw.
        arguments: Maps the names of the arguments of a user's program to their bytes, as in
            ProgramCollectives; empty for a program of busbw.

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
    arguments: Mapping[str, Natural] = field(default_factory=dict)

    @property
    def algorithm_text(self) -> str:
        """The algorithm in words, such as ``colors 2, phases 1``; or else ``not published``.

        For a user's program, the text is the number of its collectives per step instead.
        """
        if not self.groups:
            return f"{plural(sum(self.collectives.values()), 'collective')} per step"
        if not self.algorithm:
            return "not published"
        return ", ".join(f"{name} {text}" for name, text in sorted(self.algorithm.items()))


@dataclass(frozen=True, kw_only=True)
class CompileSpec(CaseSpec):
    """A case that is requested to be compiled for the chips of a topology.

    Attributes:
        topology: The name of the topology, such as ``v5e:2x4``.
        compiler: The label of the compiler; empty if the session has a single compiler.

    """

    topology: str
    compiler: str = ""

    @property
    def id(self) -> str:
        """The id of the case's test in pytest, which begins with the name of the topology."""
        return "-".join(filter(None, (self.topology, self.compiler, super().id)))

    @property
    def label_parts(self) -> tuple[str, ...]:
        """The topology, and then the parts of the label of any case, such as the collective."""
        return (self.topology, *super().label_parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledBaseline:
    """The stored program of a Case, with which later programs are compared.

    Attributes:
        case: The case on the devices of the topology.
        compiled: The program; None if the program did not fit into the memory of the chip.
        date: The day on which the program was compiled.
        release: The release of the compiler, such as ``libtpu 0.0.42.1``.

    """

    case: Case
    compiled: CompiledProgram | None
    date: Date
    release: str

    @property
    def algorithm_text(self) -> str:
        """The algorithm of the program in words, or ``out of memory``."""
        return self.compiled.algorithm_text if self.compiled else "out of memory"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledComparison:
    """The program that a compiler made for a case, compared with an earlier program.

    Attributes:
        release: The release of the compiler; empty if the case was not compiled.
        now: The compiled program; None if the case was not compiled or the compiler failed.
        baseline: The earlier program: for the first compiler of a session the stored program, and
            for a further compiler the program of the compiler before it. None if there is no
            earlier program.
        differences: The differences between the two programs.

    """

    release: str = ""
    now: CompiledProgram | None = None
    baseline: CompiledBaseline | None = None
    differences: tuple[ProgramDifference, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CompiledVerdict(Verdict):
    """The verdict on a case to be compiled.

    Attributes:
        spec: The case as it was selected.
        program: The compiled program of the case, compared with an earlier program.

    """

    spec: CompileSpec
    program: CompiledComparison = field(default_factory=CompiledComparison)


@dataclass(frozen=True, kw_only=True)
class OptimizedProgram:
    """The output of a compiler: the optimized HLO of a program, and the memory that a rank needs.

    Attributes:
        text: The optimized HLO.
        needed_bytes: The memory for arguments, outputs and temporary values together.
        temporary_bytes: The memory for temporary values alone.
        peak_bytes: The largest amount of memory in use at any moment; 0 if the compiler does not
            report this amount.

    """

    text: str
    needed_bytes: int
    temporary_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class LoweredProgram:
    """A program before it is compiled.

    Attributes:
        text: The StableHLO of the program, or another text that identifies the program.
        collectives_per_turn: The number of collectives in a turn of the program's loop, or in the
            whole program if it has no loop.
        compile: Compiles the program. Raises MeasuringError if the compiler refuses the program.
        mesh: Maps the axis names of a user's program to their extents; None for a program of busbw.

    """

    text: str
    collectives_per_turn: int
    compile: Callable[[], OptimizedProgram]
    mesh: Mapping[str, int] | None = None


def make_worker_state(options: Any) -> ModuleType:
    """Prepare this worker process, and return the module that compiles for its framework.

    The module, such as `worker_jax` for the framework ``jax``, is the worker's state: each function
    that answers a request gets it as the first argument. `options` are the options of the worker's
    command line, and `options.framework` is the name of the framework. Raises MeasuringError if the
    framework is too old.
    """
    # libtpu writes its logs into the private folder of this process, which is removed at the end.
    os.environ.setdefault("TPU_LOG_DIR", os.path.join(sys.path[0], "tpu_logs"))
    versions = backends.load_backend_module(options.framework, "versions")
    if versions is not None:
        versions.check_framework_version()
    return importlib.import_module(f"{__name__}_{options.framework}")


def describe_compiler(framework_module: ModuleType, request: Mapping[str, Any]) -> Compiler:
    """Return a description of the compiler for the topology in `request`.

    `framework_module` is the module that compiles for the worker's framework, such as `worker_jax`.
    If the worker has no compiler for the topology, the field `missing` of the description contains
    the reason.
    """
    description: Compiler = framework_module.describe_compiler(
        request_value(request, "topology", Topology)
    )
    return description


def compile_case(framework_module: Any, request: Mapping[str, Any]) -> CompiledProgram:
    """Compile a case for a topology, and check that the program contains the case's collective.

    Args:
        framework_module: The module that compiles for the worker's framework, such as `worker_jax`.
        request: The request, with the values `case`, `topology` and `cache`: the path of the folder
            of cached programs, or an empty text to cache nothing.

    Returns:
        The description of the compiled program.

    Raises:
        MeasuringError: The compiler refuses the program, the program is not the collective of the
            case, or the program does not fit into the memory of the chip.

    """
    case = request_value(request, "case", Case)
    topology = request_value(request, "topology", Topology)
    cache = request_value(request, "cache", str)
    lowered: LoweredProgram = framework_module.lower_program_of_case(case, topology)
    if cache:
        compiler = framework_module.describe_compiler(topology)
        path = Path(cache) / _cache_file_path(lowered, topology, compiler)
        optimized = _load_or_compile(lowered, path)
    else:
        optimized = lowered.compile()
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


def _cache_file_path(lowered: LoweredProgram, topology: Topology, compiler: Compiler) -> str:
    """Return the path of the file that caches a compiled program, relative to the cache folder.

    The path contains a hash of everything that affects the compiled program: the program before it
    is compiled, the compiler, the compiler's flags, and the topology.
    """
    inputs = (
        lowered.text,
        compiler.build,
        compiler.release,
        compiler.versions,
        # These values may contain secrets, which a hash does not reveal.
        variables.compiler_variables(os.environ),
        topology.description_arguments,
    )
    name = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    return f"programs/{name}.json.gz"


def _load_or_compile(lowered: LoweredProgram, path: Path) -> OptimizedProgram:
    """Return the compiled program in the cache file at `path`, or compile it and write the file.

    The program `lowered` is compiled if the file is missing, is damaged or has other fields than
    OptimizedProgram. Raises MeasuringError if the compiler refuses the program, and OSError if the
    file cannot be written.
    """
    with contextlib.suppress(storage.InputError, wire.WireError):
        document = wire.parse_json(storage.gunzip(storage.read(path)))
        return wire.from_json(OptimizedProgram, document)
    optimized = lowered.compile()
    text = json.dumps(wire.to_json(optimized))
    storage.write(path, gzip.compress(text.encode(), mtime=0))
    return optimized


def _describe_program(
    case: Case, topology: Topology, lowered: LoweredProgram, optimized: OptimizedProgram
) -> CompiledProgram:
    """Return the description of a compiled program, read from its optimized HLO.

    Raises MeasuringError if a program of busbw does not contain exactly the collective of `case`,
    or if a user's program cannot be read.
    """
    if lowered.mesh is not None:
        program = parse_collectives(optimized.text, lowered.mesh)
        counts = Counter[str]()
        for use in program.uses:
            counts[use.kind] += use.times
        return dataclass_from(
            CompiledProgram,
            optimized,
            collectives=dict(sorted(counts.items())),
            starts=any(use.is_asynchronous for use in program.uses),
            uses=program.uses,
            arguments=program.arguments,
        )
    expected = hlo_proof.ExpectedLoop(case, lowered.collectives_per_turn, topology.device)
    proved = hlo_proof.prove_loop(optimized.text, expected)
    return dataclass_from(
        CompiledProgram,
        optimized,
        collectives=dict(Counter(line.collective for line in proved.collectives)),
        groups=f"{len(case.rank_groups)}x{case.group_size}",
        algorithm=algorithm_in_backend_config(proved.collectives),
        starts=proved.is_asynchronous,
        around=dict(Counter(line.op for line in proved.payload_writers)),
        around_loop=dict(Counter(line.op for line in proved.payload_writers_per_call)),
    )
