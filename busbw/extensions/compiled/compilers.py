"""Start the compilers of a session, and compile cases in several workers at once.

Each worker compiles a single case at a time. Compiling is not timed, so it may use all processors.
If a compiler crashes or hangs, only the case that it was compiling fails. A new worker compiles the
other cases.
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
from busbw.session.machine import interpreter_of_framework
from busbw.session.option import as_usage_error, cache_folder
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
    """Return the label of each compiler that the session uses, such as ``libtpu0.0.42``.

    Only several versions in --libtpu make several compilers. A single compiler has the empty label.
    """
    versions = options.extra.get("libtpu", ())
    return tuple(f"libtpu{version}" for version in versions) if len(versions) > 1 else ("",)


def compile_cache_folder(options: Options) -> Path | None:
    """Return the folder of compiled programs and downloaded compilers; None to keep nothing.

    Raises UsageError if --compile-cache names no folder that can be written.
    """
    text = options.extra.get("compile_cache", "")
    with as_usage_error(ValueError, where="--compile-cache: "):
        folder = None if text == "none" else cache_folder(text)
        if folder is not None:
            storage.check_writable_folder(folder)
    return folder


def prepare_compiler_worker_specs(options: Options) -> dict[str, WorkerSpec]:
    """Return the WorkerSpec that starts the workers of each compiler, by the compiler's label.

    The versions of libtpu that --libtpu names are downloaded first, if necessary. Raises UsageError
    if a version is missing and cannot be downloaded.
    """
    # A session that compiles has a single framework.
    framework = options.frameworks[0]
    worker_spec = WorkerSpec(
        python=interpreter_of_framework(options, framework),
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
    """Download a version of libtpu with uv, and return the path of the file ``libtpu.so``.

    `cache` is the folder into which the version is downloaded, unless `cache` contains the version.
    Raises UsageError, with the message of uv, if the version cannot be downloaded, or if `cache` is
    None.
    """
    with as_usage_error(ImportError, ValueError, where=f"--libtpu={version}: "):
        # The extension that builds stacks may be deleted: only a download needs it.
        from busbw.extensions.stacks import environments as uv

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
class CompileJob:
    """A case to compile for a topology.

    Attributes:
        case: The case on the devices of the topology.
        topology: The chips for which the case is compiled.
        key: The environment key of the case, which selects its baseline.
        compiler: The label of the compiler; empty if the session has a single compiler.
        baseline: The stored program of the case; None if no program is stored.

    """

    case: Case
    topology: Topology
    key: EnvironmentKey
    compiler: str = ""
    baseline: CompiledBaseline | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilingSession(CollectedSession):
    """A session that compiles: its cases, its compilers, and the programs so far.

    Attributes:
        specs: The selected cases.
        jobs: Maps each case to its job. A case whose compiler does not support the topology has no
            job.
        compilers: Maps each pair of a compiler label and a topology name to the compiler.
        results: Maps each compiled case to its program, or to the failure of the compiler.

    """

    specs: tuple[CompileSpec, ...]
    jobs: Mapping[CompileSpec, CompileJob]
    compilers: Mapping[tuple[str, str], Compiler]
    results: Mapping[CompileSpec, CompiledProgram | Failure] = field(default_factory=dict)


@dataclass
class ParallelCompiler:
    """The worker processes that compile the jobs of a session, several at once.

    Attributes:
        executor: Starts and stops the workers.
        worker_specs: Maps the label of each compiler to the WorkerSpec that starts its workers.
        worker_count: The largest number of workers that compile at the same time.
        timeout_s: A worker that does not answer within this number of seconds is killed.
        cache: The folder that keeps compiled programs between sessions; None to keep nothing.

    """

    executor: Executor
    worker_specs: Mapping[str, WorkerSpec]
    worker_count: int
    timeout_s: float
    cache: Path | None = None
    # The workers, by the number of the thread that uses them and the label of the compiler.
    _worker_groups: dict[tuple[int, str], Group] = field(default_factory=dict)
    _launch_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def describe_compilers(
        self, compiler_label: str, topologies: Sequence[Topology]
    ) -> list[Compiler]:
        """Return, for each of `topologies`, the compiler with the label `compiler_label`.

        If no worker answers, the field `missing` of the returned Compiler contains the reason.
        """
        compilers = []
        with self.executor:
            for topology in topologies:
                request = Request("describe", Compiler, {"topology": topology})
                answer = self._ask_worker(compiler_label, request, "starting the compiler")
                if isinstance(answer, Failure):
                    answer = Compiler(topology=topology.name, missing=answer.message)
                compilers.append(answer)
        return compilers

    def compile_jobs(self, jobs: Sequence[CompileJob]) -> list[CompiledProgram | Failure]:
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

    def _compile_job(self, job: CompileJob) -> CompiledProgram | Failure:
        """Let the worker of this thread compile `job`; return the program, or why it failed."""
        cache = str(self.cache) if self.cache else ""
        values = {"topology": job.topology, "case": job.case, "cache": cache}
        return self._ask_worker(
            job.compiler, Request("compile", CompiledProgram, values), "compiling"
        )

    def _ask_worker(self, compiler_label: str, request: Request[T], activity: str) -> T | Failure:
        """Send `request` to this thread's worker, and return the reply, or why there is no reply.

        Each thread has a worker for each compiler. If the worker has ended, a new worker is
        started.

        Args:
            compiler_label: The label of the worker's compiler.
            request: The request to the worker.
            activity: The activity of the worker, for messages, such as ``compiling``.

        """
        thread_and_compiler = threading.get_ident(), compiler_label
        if (
            thread_and_compiler not in self._worker_groups
            or self._worker_groups[thread_and_compiler].has_ended
        ):
            launch = LaunchId(name=f"compile-{next(self._launch_numbers)}")
            group = self.executor.open_group(self.worker_specs[compiler_label], launch)
            if isinstance(group, Failure):
                return group
            self._worker_groups[thread_and_compiler] = group
        return self._worker_groups[thread_and_compiler].ask(request, self.timeout_s, activity)
