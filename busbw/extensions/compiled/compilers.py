"""Start the compilers of a session, and compile cases in several workers at once.

Each worker compiles a single case at a time. Compiling is not timed, so it may use all processors.
A compiler that crashes or hangs costs a process and a case, and a new worker compiles the other
cases.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw import storage
from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.transport import Request, T, WorkerSpec
from busbw.frameworks import FRAMEWORKS
from busbw.model.case import Case
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import EnvironmentKey
from busbw.session.machine import python_of
from busbw.session.option import cache_folder, usage_error
from busbw.session.options import Options
from busbw.session.state import CollectedSession

from .worker import (
    RELEASE_VARIABLE,
    CompiledBaseline,
    CompiledProgram,
    Compiler,
    CompileSpec,
    Topology,
)

# Environment variables of workers that compile, by framework; a value that the user set wins.
COMPILER_ENVIRONMENT = {
    "jax": {
        # A compiler needs no hardware: do not search for it, here or in a cloud's metadata.
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        # Several processes may load libtpu at once, because they do not use a chip.
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
}


def compiler_labels(options: Options) -> tuple[str, ...]:
    """Return the labels of the compilers; a single compiler has the empty label."""
    versions = options.extra.get("libtpu", ())
    return tuple(f"libtpu{version}" for version in versions) if len(versions) > 1 else ("",)


def compile_cache_folder(options: Options) -> Path | None:
    """Return the folder of compiled programs and downloaded compilers; None to keep nothing.

    Raises UsageError if --compile-cache names no folder that can be written.
    """
    text = options.extra.get("compile_cache", "")
    with usage_error(ValueError, where="--compile-cache: "):
        folder = None if text == "none" else cache_folder(text)
        if folder is not None:
            storage.check_writable_folder(folder)
    return folder


def compiler_worker_specs(options: Options) -> dict[str, WorkerSpec]:
    """Return how the workers of each compiler are started, by the label of the compiler.

    Raises UsageError if a release of libtpu is missing and cannot be downloaded.
    """
    # A session that compiles has a single framework.
    framework = options.frameworks[0]
    worker_spec = WorkerSpec(
        python=python_of(options, framework),
        framework=framework,
        service="compile",
        default_variables=COMPILER_ENVIRONMENT.get(framework, {}),
    )
    worker_specs = dict.fromkeys(compiler_labels(options), worker_spec)
    for label, version in zip(worker_specs, options.extra.get("libtpu", ())):
        environment = {RELEASE_VARIABLE: f"libtpu {version}"}
        if not FRAMEWORKS[framework].is_scripted:
            library = download_libtpu(version, compile_cache_folder(options))
            environment["TPU_LIBRARY_PATH"] = str(library)
        worker_specs[label] = replace(worker_spec, environment=environment)
    return worker_specs


def download_libtpu(version: str, cache: Path | None) -> Path:
    """Download a version of libtpu with uv, unless `cache` contains it, and return its library.

    Raises UsageError, with the message of uv, if the version cannot be downloaded, or if `cache` is
    None.
    """
    with usage_error(ImportError, ValueError, where=f"--libtpu={version}: "):
        # The extension that builds stacks may be deleted: only a download needs it.
        from busbw.extensions.stacks import uv

        if cache is None:
            raise ValueError("needs a --compile-cache to be fetched into")
        folder = cache / "libtpu" / version
        install = ("pip", "install", "--quiet", "--no-deps", f"--python={sys.executable}")
        uv.build_once(
            folder,
            lambda new: uv.run_uv(*install, "--no-build", f"libtpu=={version}", "--target", new),
        )
        return folder / "libtpu" / "libtpu.so"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A case to compile for a topology.

    `compiler` is the label of the compiler. `key` is the environment of the case, and `baseline`
    the stored program of the case; None if nothing is stored.
    """

    case: Case
    topology: Topology
    key: EnvironmentKey
    compiler: str = ""
    baseline: CompiledBaseline | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compilation(CollectedSession):
    """The cases to compile, and the results so far.

    `compilers` maps the label of a compiler and the name of a topology to the compiler. `jobs` maps
    each case to its job; a case whose compiler does not support the topology has no job. `results`
    maps each compiled case to its program, or to the failure of the compiler.
    """

    specs: tuple[CompileSpec, ...]
    jobs: Mapping[CompileSpec, Job]
    compilers: Mapping[tuple[str, str], Compiler]
    results: Mapping[CompileSpec, CompiledProgram | Failure] = field(default_factory=dict)


@dataclass
class ParallelCompiler:
    """Compiles jobs with up to `worker_count` processes at once.

    `worker_specs` maps the label of each compiler to the way in which its workers are started. A
    worker that does not answer within `timeout_s` is killed. `cache` is the folder that keeps
    compiled programs between sessions; None to keep nothing.
    """

    executor: Executor
    worker_specs: Mapping[str, WorkerSpec]
    worker_count: int
    timeout_s: float
    cache: Path | None = None
    # The workers, by the number of the thread that uses them and the label of the compiler.
    _groups: dict[tuple[int, str], Group] = field(default_factory=dict)
    _launch_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def describe_compilers(self, compiler: str, topologies: Sequence[Topology]) -> list[Compiler]:
        """Return the compiler with the label `compiler` as it is for each of the topologies.

        If a worker does not start or ends, the reason is in `missing` of the result.
        """
        compilers = []
        with self.executor:
            for topology in topologies:
                request = Request("describe", Compiler, {"topology": topology})
                answer = self._ask_worker(compiler, request, "starting the compiler")
                if isinstance(answer, Failure):
                    answer = Compiler(topology=topology.name, missing=answer.message)
                compilers.append(answer)
        return compilers

    def compile_jobs(self, jobs: Sequence[Job]) -> list[CompiledProgram | Failure]:
        """Compile all jobs, and return their results in the order of the jobs.

        All workers are stopped at the end, also after an error or an interrupt.
        """
        with (
            self.executor,
            ThreadPoolExecutor(max(1, min(self.worker_count, len(jobs)))) as threads,
        ):
            try:
                return list(threads.map(self._compile_job, jobs))
            except BaseException:
                self.executor.stop()
                raise

    def _compile_job(self, job: Job) -> CompiledProgram | Failure:
        cache = str(self.cache) if self.cache else ""
        values = {"topology": job.topology, "case": job.case, "cache": cache}
        return self._ask_worker(
            job.compiler, Request("compile", CompiledProgram, values), "compiling"
        )

    def _ask_worker(self, compiler: str, request: Request[T], activity: str) -> T | Failure:
        """Return the reply of this thread's worker to a request, or why there is no reply.

        If the worker has ended, a new worker is started. `activity` describes the request in
        messages.
        """
        thread_and_compiler = threading.get_ident(), compiler
        if thread_and_compiler not in self._groups or self._groups[thread_and_compiler].has_ended:
            launch = LaunchId(name=f"compile-{next(self._launch_numbers)}")
            group = self.executor.open_group(self.worker_specs[compiler], launch)
            if isinstance(group, Failure):
                return group
            self._groups[thread_and_compiler] = group
        return self._groups[thread_and_compiler].ask(request, self.timeout_s, activity)
