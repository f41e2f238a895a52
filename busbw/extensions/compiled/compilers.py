"""Name topologies such as ``v5e:2x4`` and ``h100:8``, and compile cases for them in workers.

The slices of TPUs are listed at https://cloud.google.com/tpu/docs (system architecture, "TPU
configurations"). A shape such as ``2x4`` counts chips along each axis. The numbers of each GPU are
from the CUDA programming guide (appendix "Compute Capabilities"), data sheets and the driver. XLA
names these numbers in ``GpuTargetConfigProto`` and ``device_description.proto``.

Each worker compiles a single case at a time. Compiling is not timed, so it may use all processors.
If a compiler crashes or hangs, only the case that it was compiling fails. A new worker compiles the
other cases.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from busbw import storage, wire
from busbw.driver.executor import Executor
from busbw.driver.group import Group
from busbw.driver.transport import Request, T, WorkerSpec
from busbw.frameworks import FRAMEWORKS
from busbw.hardware import CHIPS, Chip
from busbw.model.launch import Failure, LaunchId
from busbw.model.machine import mesh_shape
from busbw.model.words import DeviceClass
from busbw.session.machine import interpreter_of_framework
from busbw.session.option import as_usage_error, cache_folder
from busbw.session.options import Options

from .judge import CompileJob
from .worker import RELEASE_VARIABLE, CompiledProgram, Compiler, CompileSpec, Topology

# The chips that are sold as slices, by name.
SLICED_CHIPS = {chip.name: chip for chip in CHIPS if chip.shapes}

# The configuration of libtpu in which both cores of a chip are a single device, as JAX sees them on
# a real chip. Without it libtpu would choose another configuration for a chip that is not there.
_CHIP_CONFIGS = {"v4": {"chip_config_name": "megacore"}}


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU chip for which programs can be compiled.

    Attributes:
        name: The beginning of the names of its topologies, such as ``h100``.
        device_kind: JAX's name for the chip.
        memory_bytes: The size of the device memory, as the driver reports it.
        max_gpus_per_host: The largest number of GPUs in a host.
        device_info: The other properties of the chip, by the names of the fields of XLA's
            ``GpuDeviceInfoProto``. CUDA reserves 1 KiB of a multiprocessor's shared memory for each
            block, so that ``shared_memory_per_block_optin`` is 1 KiB less than
            ``shared_memory_per_core``.

    """

    name: str
    device_kind: str
    memory_bytes: int
    max_gpus_per_host: int
    device_info: Mapping[str, object]

    def target_config(self) -> str:
        """Return the description of the chip for XLA: a ``GpuTargetConfigProto`` in text format."""
        properties = "\n".join(f"  {name}: {value}" for name, value in self.device_info.items())
        return f"""gpu_device_info {{
  name: "{self.device_kind}"
  device_vendor: "NVIDIA Corporation"
{properties}
  device_memory_size: {self.memory_bytes}
  shared_memory_per_block: 49152
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{self.device_kind}"
"""


# The file gpus.json has the values of each chip.
GPUS = {
    gpu.name: gpu
    for gpu in wire.from_json(
        tuple[Gpu, ...], wire.parse_json(files(__package__).joinpath("gpus.json").read_bytes())
    )
}


_SLICES_OF_8_RANKS = (
    "v2:2x2",
    "v3:2x2",
    "v4:2x2x2",
    "v5e:2x4",
    "v5p:2x2x2",
    "v6e:2x4",
    "tpu7x:2x2x1",
)
_HOSTS_OF_8_GPUS = tuple(f"{name}:8" for name in GPUS)

# Words that stand for a topology of each chip: slices with 8 ranks, and a host with 8 GPUs.
TOPOLOGY_SETS = {
    "all": (*_SLICES_OF_8_RANKS, *_HOSTS_OF_8_GPUS),
    "tpu": _SLICES_OF_8_RANKS,
    "gpu": _HOSTS_OF_8_GPUS,
}

_GPU_LAYOUT_PATTERN = re.compile(r"(?:(?P<hosts>[1-9]\d?)x)?(?P<each>[1-9]\d?)")


def parse_topology(name: str) -> Topology:
    """Return the topology with the name `name`, such as ``v5e:2x4`` or ``h100:2x8``.

    Raises ValueError if the chip or its layout is unknown; the message lists the known names.
    """
    chip, _, layout = name.partition(":")
    if chip in SLICED_CHIPS:
        return _make_tpu_topology(name, SLICED_CHIPS[chip], layout)
    if chip in GPUS:
        return _make_gpu_topology(name, GPUS[chip], layout)
    expected = f"expected one of {', '.join((*SLICED_CHIPS, *GPUS))}"
    raise ValueError(f"{name!r}: no chip is called {chip!r}; {expected}")


def _make_tpu_topology(name: str, chip: Chip, layout: str) -> Topology:
    """Return the topology `name`: a slice of TPU chips with the shape `layout`, such as ``2x4``.

    Raises ValueError if slices of `chip` do not exist in the shape `layout`.
    """
    if layout not in chip.shapes:
        names = ", ".join(f"{chip.name}:{shape}" for shape in chip.shapes)
        raise ValueError(f"{name!r}: {chip.name} is known as {names}")
    return Topology(
        name=name,
        device=DeviceClass.TPU,
        device_kind=chip.device_kind,
        ranks=chip.devices_per_chip * math.prod(mesh_shape(layout)),
        description_arguments={
            "platform": "tpu",
            "topology_name": name,
            **_CHIP_CONFIGS.get(chip.name, {}),
        },
    )


def _make_gpu_topology(name: str, gpu: Gpu, layout: str) -> Topology:
    """Return the topology `name`: one host or several hosts with GPUs of the kind `gpu`.

    `layout` is the number of GPUs in a single host, such as ``8``, or the number of hosts and the
    number of GPUs in each host, such as ``2x8``. Raises ValueError for any other text, and for a
    number of GPUs that is too small or too large.
    """
    match = _GPU_LAYOUT_PATTERN.fullmatch(layout)
    hosts, ranks_per_host = (int(match["hosts"] or 1), int(match["each"])) if match else (0, 0)
    if not 1 <= ranks_per_host <= gpu.max_gpus_per_host or hosts * ranks_per_host < 2:
        raise ValueError(
            f"{name!r}: expected 2 to {gpu.max_gpus_per_host} GPUs in a host, such as h100:8, or "
            "several hosts, such as h100:2x8 for two hosts of 8 GPUs"
        )
    return Topology(
        name=name,
        device=DeviceClass.GPU,
        device_kind=gpu.device_kind,
        ranks=hosts * ranks_per_host,
        hosts=hosts,
        memory_bytes=gpu.memory_bytes,
        description_arguments={
            "platform": "cuda",
            "topology_name": gpu.name,
            "target_config": gpu.target_config(),
            "topology": f"1x{hosts}x{ranks_per_host}",
        },
    )


# Environment variables of workers that compile; a value that the user set wins.
COMPILER_ENVIRONMENT = {
    # A compiler needs no hardware: do not search for it, here or in a cloud's metadata.
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    # Several processes may load libtpu at once, because they do not use a chip.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "CUDA_VISIBLE_DEVICES": "-1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}


def compiler_labels(options: Options) -> tuple[str, ...]:
    """Return the label of each compiler that the session uses, such as ``libtpu0.0.42``.

    A session uses several compilers only if --libtpu names several versions. A single compiler has
    an empty label.
    """
    versions = options.extra.get("libtpu", ())
    return tuple(f"libtpu{version}" for version in versions) if len(versions) > 1 else ("",)


def compile_cache_folder(options: Options) -> Path | None:
    """Return the folder that keeps compiled programs and downloaded compilers between sessions.

    Returns None for ``--compile-cache=none``, which keeps nothing. Raises UsageError if the folder
    cannot be written.
    """
    text = options.extra.get("compile_cache", "")
    with as_usage_error(ValueError, where="--compile-cache: "):
        folder = None if text == "none" else cache_folder(text)
        if folder is not None:
            storage.check_writable_folder(folder)
    return folder


def prepare_compiler_worker_specs(options: Options, cache: Path | None) -> dict[str, WorkerSpec]:
    """Return the WorkerSpec that starts the workers of each compiler, by the compiler's label.

    Versions of libtpu that --libtpu names are first downloaded into the folder `cache`, if the
    folder lacks them. Raises UsageError if a version cannot be downloaded, for example because
    `cache` is None.
    """
    # A session that compiles has a single framework.
    framework = options.frameworks[0]
    worker_spec = WorkerSpec(
        python=interpreter_of_framework(options, framework),
        framework=framework,
        service="compile",
        default_variables=COMPILER_ENVIRONMENT,
    )
    worker_specs = dict.fromkeys(compiler_labels(options), worker_spec)
    for label, version in zip(worker_specs, options.extra.get("libtpu", ())):
        if FRAMEWORKS[framework].is_scripted:
            environment = {RELEASE_VARIABLE: f"libtpu {version}"}
        else:
            environment = {"TPU_LIBRARY_PATH": str(download_libtpu(version, cache))}
        worker_specs[label] = replace(worker_spec, environment=environment)
    return worker_specs


def download_libtpu(version: str, cache: Path | None) -> Path:
    """Download a version of libtpu with uv, and return the path of the file ``libtpu.so``.

    The version is downloaded into the folder `cache`. A version that `cache` already contains is
    not downloaded again. Raises UsageError if the version cannot be downloaded, with the message of
    uv, or if `cache` is None.
    """
    with as_usage_error(ImportError, ValueError, where=f"--libtpu={version}: "):
        # The extension that builds stacks may be deleted: only a download needs it.
        from busbw.extensions.stacks import environments

        if cache is None:
            raise ValueError("needs a --compile-cache to be fetched into")
        folder = cache / "libtpu" / version
        environments.build_once(
            folder,
            lambda new: environments.run_uv(
                *("pip", "install", "--quiet", "--no-deps", "--no-build"),
                *(f"--python={sys.executable}", f"libtpu=={version}", "--target", new),
            ),
        )
        return folder / "libtpu" / "libtpu.so"


@dataclass
class ParallelCompiler:
    """The worker processes that compile the programs of a session, several programs at once.

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

    def describe_compiler(self, compiler_label: str, topology_name: str) -> Compiler:
        """Ask a worker which compiler it has for the topology `topology_name`, and return it.

        If the worker has no compiler for the topology, or does not answer, the field `missing` of
        the returned Compiler contains the reason. Call this method within ``with executor:``, which
        stops the workers at the end.

        Args:
            compiler_label: The label of the compiler, which selects the worker.
            topology_name: The name of the topology, such as ``v5e:2x4``.

        """
        request = Request("describe", Compiler, {"topology": parse_topology(topology_name)})
        answer = self._ask_worker(compiler_label, request, "starting the compiler")
        if isinstance(answer, Failure):
            return Compiler(topology=topology_name, missing=answer.message)
        return answer

    def compile_jobs(
        self, jobs: Mapping[CompileSpec, CompileJob]
    ) -> dict[CompileSpec, CompiledProgram | Failure]:
        """Compile all jobs; return the program of each job, or the Failure to compile the job.

        All workers are stopped at the end, also after an error or an interrupt.
        """
        with self.executor, ThreadPoolExecutor(self.worker_count) as threads:
            try:
                return dict(zip(jobs, threads.map(self._compile_job, jobs, jobs.values())))
            finally:
                self.executor.stop()

    def _compile_job(self, spec: CompileSpec, job: CompileJob) -> CompiledProgram | Failure:
        """Compile `job` in this thread's worker; return the program, or the Failure to compile."""
        values = {
            "topology": parse_topology(spec.topology),
            "case": job.case,
            "cache": str(self.cache or ""),
        }
        request = Request("compile", CompiledProgram, values)
        return self._ask_worker(spec.compiler, request, "compiling")

    def _ask_worker(self, compiler_label: str, request: Request[T], activity: str) -> T | Failure:
        """Send `request` to a worker of this thread; return the reply, or a Failure if none comes.

        Each thread has its own worker for each compiler. If the worker has not been started yet, or
        has ended, a new worker is started.

        Args:
            compiler_label: The label of the worker's compiler.
            request: The request to the worker.
            activity: What the worker does, for error messages, such as ``compiling``.

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
