"""Environment variables that are recorded, each with its reason; of others only the name.

Anybody may read baselines, results and logs: a value is recorded only if its variable is in the
table below, by its exact name, and holds no secret, no host and no account. Others with a prefix of
a framework's (`TF_TOKEN_...` is Terraform's) are recorded as set, and home directories as ``~``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

HIDDEN = "(set)"

# What proves that a host takes part in a session; no worker needs it.
SECRET = "BUSBW_SECRET"

# The folder in which workers leave their profiler's recordings; without it they are removed.
RECORDINGS = "BUSBW_RECORDINGS"

# Variables with these prefixes are recorded without their values if they are not in the table.
PREFIXES = ("XLA_", "JAX_", "TF_", "LIBTPU_", "NCCL_", "OMP_", "CUDA_VISIBLE")

# A home below any folder, as of several machines, and root's own.
_HOMES = r"(?:/[\w.+-]+)*?/(?:home|Users)/[^/\s:;,='\"()]+|(?<![\w.~-])/root"
_END = r"(?=$|[/\s:;,='\"()])"

# In the name of a variable; shorter values would mask ordinary words of a log.
_SECRET = re.compile("TOKEN|SECRET|PASSW|PASSPHRASE|KEY|CREDENTIAL|AUTH", re.IGNORECASE)
_LEAST_CHARACTERS = 8
_OF_URL = re.compile(r"(?<=://)[^\s/'\"<>]+(?=@)")
_MASK = "***"
# In bytes of any kind, where a name ends within the same text for sure.
_IN_BYTES = re.compile(rb"/(?:home|Users)/[\w.+-]+(?=/)|(?<=://)[\w:.%+-]+(?=@)")


@dataclass(frozen=True)
class Variable:
    """A variable whose value is recorded, and why.

    `compiles`: it changes what XLA compiles; `stack`: it is an option of the stack anyway, and not
    of the machine, of which devices take part, or of the process.
    """

    name: str
    why: str
    compiles: bool = False
    stack: bool = False


# The folder where a worker keeps compiled programs for those that follow it in the session.
PROGRAMS = "BUSBW_KEPT_PROGRAMS"

# What glibc is told as a process starts.
_TUNABLES = "GLIBC_TUNABLES"
_HUGE_PAGES = "glibc.malloc.hugetlb=1"

# From the documentation and the source of JAX 0.10, libtpu 0.0.42, TensorFlow 2.21, NCCL 2.28,
# glibc 2.36 and the OpenMP runtimes.
VARIABLES = (
    # XLA and its clients
    Variable("XLA_FLAGS", "options of XLA's compilers and run time", compiles=True),
    Variable("XLA_PYTHON_CLIENT_PREALLOCATE", "whether GPU memory is taken at once"),
    Variable("XLA_PYTHON_CLIENT_MEM_FRACTION", "how much of it"),
    Variable("XLA_CLIENT_MEM_FRACTION", "the same by its newer name"),
    Variable("XLA_PYTHON_CLIENT_ALLOCATOR", "which allocator gives GPU memory", stack=True),
    Variable("XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "memory that NCCL may register"),
    # JAX
    Variable("JAX_PLATFORMS", "which devices are looked for"),
    Variable("JAX_PLATFORM_NAME", "which device is the default"),
    Variable("JAX_NUM_CPU_DEVICES", "how many devices a CPU is split into"),
    Variable("JAX_CPU_COLLECTIVES_IMPLEMENTATION", "gloo or MPI between processes", stack=True),
    Variable(
        "JAX_CPU_ENABLE_ASYNC_DISPATCH", "whether a call on the CPU returns at once", stack=True
    ),
    Variable("JAX_CUDA_VISIBLE_DEVICES", "which GPUs take part"),
    Variable("JAX_ROCM_VISIBLE_DEVICES", "which GPUs take part"),
    Variable("JAX_PJRT_CLIENT_CREATE_OPTIONS", "options of a device's client", stack=True),
    Variable("JAX_ENABLE_X64", "whether 64 bits are kept", compiles=True),
    Variable("JAX_DEFAULT_MATMUL_PRECISION", "how exact products are", compiles=True),
    Variable("JAX_DEFAULT_DTYPE_BITS", "the width of a default type", compiles=True),
    Variable("JAX_DISABLE_JIT", "whether anything is compiled at all", stack=True),
    Variable("JAX_DISABLE_MOST_OPTIMIZATIONS", "what XLA optimises", compiles=True),
    Variable("JAX_OPTIMIZATION_LEVEL", "how much XLA optimises", compiles=True),
    Variable("JAX_EXEC_TIME_OPTIMIZATION_EFFORT", "how much XLA optimises", compiles=True),
    Variable("JAX_MEMORY_FITTING_LEVEL", "how hard XLA tries to fit memory", compiles=True),
    Variable("JAX_MEMORY_FITTING_EFFORT", "how hard XLA tries to fit memory", compiles=True),
    Variable("JAX_COMPILER_ENABLE_REMAT_PASS", "what XLA computes again", compiles=True),
    Variable("JAX_XLA_PROFILE_VERSION", "which profile guides XLA", compiles=True),
    Variable("JAX_ENABLE_PGLE", "whether a profile guides XLA", compiles=True),
    Variable("JAX_PGLE_PROFILING_RUNS", "after how many runs it does"),
    Variable("JAX_ALLOW_F16_REDUCTIONS", "in which type sums are taken", compiles=True),
    Variable("JAX_USE_SHARDY_PARTITIONER", "which partitioner places collectives", compiles=True),
    Variable("JAX_ENABLE_COMPILATION_CACHE", "whether an older program may be taken"),
    Variable("JAX_DEBUG_NANS", "checks after every call"),
    Variable("JAX_DEBUG_INFS", "checks after every call"),
    Variable("JAX_ENABLE_CHECKS", "checks in every call"),
    Variable("JAX_TRANSFER_GUARD", "checks of every transfer"),
    Variable("JAX_LOG_COMPILES", "a log line for every program"),
    # TPUs
    Variable("LIBTPU_INIT_ARGS", "options of the compiler and run time for TPUs", compiles=True),
    Variable("TPU_LIBRARY_PATH", "which libtpu is loaded"),
    Variable("TPU_ACCELERATOR_TYPE", "which slice it is"),
    Variable("TPU_CHIPS_PER_HOST_BOUNDS", "how chips are laid out"),
    Variable("TPU_CHIPS_PER_PROCESS_BOUNDS", "how chips are shared out"),
    Variable("TPU_HOST_BOUNDS", "how hosts are laid out"),
    Variable("TPU_PROCESS_BOUNDS", "how processes are laid out"),
    Variable("TPU_TOPOLOGY_ALT", "which form of a slice it is"),
    Variable("TPU_TOPOLOGY_WRAP", "which axes of a slice are closed"),
    Variable("TPU_VISIBLE_CHIPS", "which chips take part"),
    Variable("TPU_VISIBLE_DEVICES", "which chips take part"),
    Variable("TPU_MEGACORE", "whether two cores are one", compiles=True),
    Variable("TPU_PREMAPPED_BUFFER_SIZE", "memory for transfers from the host"),
    Variable("TPU_PREMAPPED_BUFFER_TRANSFER_THRESHOLD_BYTES", "which transfers use it"),
    # TensorFlow
    Variable("TF_ENABLE_ONEDNN_OPTS", "which kernels and which allocator the CPU has", stack=True),
    Variable("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "which allocator the CPU has"),
    Variable("TF_SET_ONEDNN_FPMATH_MODE", "how exact products are", stack=True),
    Variable("TF_CPU_ALLOCATOR_USE_BFC", "which allocator the CPU has"),
    Variable("TF_CPU_BFC_MEM_LIMIT_IN_MB", "how much memory it gives"),
    Variable("TF_NUM_INTEROP_THREADS", "how many operations run at once"),
    Variable("TF_NUM_INTRAOP_THREADS", "on how many threads one runs"),
    Variable("TF_OVERRIDE_GLOBAL_THREADPOOL", "whether sessions share threads"),
    Variable("TF_GPU_ALLOCATOR", "which allocator the GPU has", stack=True),
    Variable("TF_FORCE_GPU_ALLOW_GROWTH", "whether GPU memory is taken at once"),
    Variable("TF_FORCE_UNIFIED_MEMORY", "whether GPU memory may lie on the host"),
    Variable("TF_PER_DEVICE_MEMORY_LIMIT_MB", "how much GPU memory there is"),
    Variable("TF_GPU_HOST_MEM_LIMIT_IN_MB", "how much pinned memory there is"),
    Variable("TF_GPU_THREAD_MODE", "which threads start kernels", stack=True),
    Variable("TF_GPU_THREAD_COUNT", "how many threads start kernels"),
    Variable("TF_CUDNN_USE_AUTOTUNE", "how kernels are chosen"),
    Variable("TF_CUDNN_DETERMINISTIC", "which kernels may be chosen", stack=True),
    Variable("TF_DETERMINISTIC_OPS", "which kernels may be chosen", stack=True),
    Variable("TF_XLA_FLAGS", "what TensorFlow hands to XLA", stack=True),
    Variable("TF_CPP_MIN_LOG_LEVEL", "how much is logged"),
    Variable("TF_CPP_MAX_VLOG_LEVEL", "how much is logged"),
    # CUDA and NCCL. Interfaces and adapters have names of devices, eth0 or mlx5_0: they choose the
    # network that is measured. Addresses of hosts (NCCL_COMM_ID, NCCL_HOSTID) are left out.
    Variable("CUDA_VISIBLE_DEVICES", "which GPUs take part"),
    Variable("CUDA_DEVICE_ORDER", "in which order"),
    Variable("CUDA_DEVICE_MAX_CONNECTIONS", "what may overlap"),
    Variable("CUDA_LAUNCH_BLOCKING", "whether anything may overlap"),
    Variable("CUDA_MODULE_LOADING", "when kernels are loaded"),
    Variable("NVIDIA_TF32_OVERRIDE", "how exact products are", stack=True),
    Variable("NCCL_ALGO", "ring, tree or another algorithm", stack=True),
    Variable("NCCL_PROTO", "which protocol moves the bytes", stack=True),
    Variable("NCCL_MIN_NCHANNELS", "how many channels there are", stack=True),
    Variable("NCCL_MAX_NCHANNELS", "how many channels there are", stack=True),
    Variable("NCCL_MIN_CTAS", "how much of a GPU it takes", stack=True),
    Variable("NCCL_MAX_CTAS", "how much of a GPU it takes", stack=True),
    Variable("NCCL_NTHREADS", "how much of a GPU it takes", stack=True),
    Variable("NCCL_BUFFSIZE", "how the bytes are cut", stack=True),
    Variable("NCCL_P2P_DISABLE", "whether GPUs reach each other"),
    Variable("NCCL_P2P_LEVEL", "over which distance they do", stack=True),
    Variable("NCCL_SHM_DISABLE", "whether the host's memory is a way"),
    Variable("NCCL_NVLS_ENABLE", "whether switches add up", stack=True),
    Variable("NCCL_COLLNET_ENABLE", "whether the network adds up", stack=True),
    Variable("NCCL_CUMEM_ENABLE", "how its buffers are made", stack=True),
    Variable("NCCL_NET", "which network is used"),
    Variable("NCCL_NET_PLUGIN", "which network is used"),
    Variable("NCCL_NET_GDR_LEVEL", "whether the network reaches GPUs"),
    Variable("NCCL_CROSS_NIC", "which adapters a ring takes", stack=True),
    Variable("NCCL_IB_DISABLE", "whether InfiniBand is used"),
    Variable("NCCL_IB_HCA", "which adapters are used"),
    Variable("NCCL_IB_GID_INDEX", "over which protocol"),
    Variable("NCCL_IB_TC", "in which class of traffic"),
    Variable("NCCL_IB_QPS_PER_CONNECTION", "over how many queues"),
    Variable("NCCL_SOCKET_IFNAME", "which interfaces are used"),
    Variable("NCCL_SOCKET_NTHREADS", "by how many threads"),
    Variable("NCCL_NSOCKS_PERTHREAD", "over how many sockets"),
    Variable("NCCL_TUNER_PLUGIN", "what chooses algorithms"),
    Variable("NCCL_TOPO_FILE", "the file with the topology"),
    Variable("NCCL_GRAPH_FILE", "the file with the rings"),
    Variable("NCCL_LAUNCH_MODE", "how kernels are started", stack=True),
    Variable("NCCL_DEBUG", "how much is logged"),
    # Memory and threads of the process
    Variable(_TUNABLES, "huge pages, and when memory is given back"),
    Variable("MALLOC_ARENA_MAX", "how many threads share an arena"),
    Variable("MALLOC_MMAP_THRESHOLD_", "from which size memory is given back"),
    Variable("MALLOC_TRIM_THRESHOLD_", "when memory is given back"),
    Variable("MALLOC_TOP_PAD_", "how much memory is taken at once"),
    Variable("LD_PRELOAD", "another allocator, such as tcmalloc on TPU VMs, or another clock"),
    Variable("LD_AUDIT", "what may replace functions of a library as LD_PRELOAD does"),
    Variable("LD_LIBRARY_PATH", "where NCCL and CUDA are loaded from"),
    Variable("FAKETIME", "how fast the clock of faketime runs"),
    Variable("OMP_NUM_THREADS", "how many threads there are"),
    Variable("OMP_THREAD_LIMIT", "how many threads there may be"),
    Variable("OMP_DYNAMIC", "whether their number changes"),
    Variable("OMP_PROC_BIND", "whether threads stay on their cores"),
    Variable("OMP_PLACES", "on which cores"),
    Variable("OMP_WAIT_POLICY", "whether waiting threads spin"),
    Variable("OMP_SCHEDULE", "how loops are shared out"),
    Variable("KMP_AFFINITY", "on which cores threads stay"),
    Variable("KMP_BLOCKTIME", "how long waiting threads spin"),
    Variable("GOMP_CPU_AFFINITY", "on which cores threads stay"),
    Variable("GOMP_SPINCOUNT", "how long waiting threads spin"),
)
_KNOWN = frozenset(one.name for one in VARIABLES)

# What is locked with a stack.
STACK = frozenset(one.name for one in VARIABLES if one.compiles or one.stack)

# Name a library that is loaded in place of an installed one.
REPLACES = ("TPU_LIBRARY_PATH", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN")


def with_huge_pages(environment: Mapping[str, str]) -> dict[str, str]:
    """Read by glibc at the start: an all-reduce is timed, and not the page allocator."""
    if has_huge_pages(environment):
        return dict(environment)
    others = environment.get(_TUNABLES, "")
    return {**environment, _TUNABLES: f"{others}:{_HUGE_PAGES}" if others else _HUGE_PAGES}


def has_huge_pages(environment: Mapping[str, str]) -> bool:
    return _HUGE_PAGES in environment.get(_TUNABLES, "")


def recorded(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """What is recorded of `environment`, by name; `home` is the user's home directory."""
    names = sorted(name for name in environment if name in _KNOWN or name.startswith(PREFIXES))
    return masked({name: environment[name] for name in names}, home)


def masked(values: Mapping[str, str], home: str = "") -> dict[str, str]:
    """Without those that may not be recorded; other names, such as a version, are kept."""
    return {
        name: HIDDEN
        if name.startswith(PREFIXES) and name not in _KNOWN
        else without_homes(value, home)
        for name, value in values.items()
    }


def of_compilers(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that change what is compiled, in full: for the cache key, never shown."""
    names = sorted(one.name for one in VARIABLES if one.compiles and one.name in environment)
    return {name: environment[name] for name in names}


def of_stack(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """The variables that are part of a stack, with ``~`` for homes: a lock is read by anybody."""
    names = sorted(STACK & environment.keys())
    return {name: without_homes(environment[name], home) for name in names}


def public(text: str, environment: Mapping[str, str], home: str) -> str:
    """`text` of a process without secrets of its `environment`, credentials in URLs, and homes."""
    for secret in _secrets(environment):
        text = text.replace(secret, _MASK)
    return without_homes(_OF_URL.sub(_MASK, text), home)


def public_bytes(content: bytes, environment: Mapping[str, str], home: str) -> bytes:
    """The same of a binary format: what is masked stays as long as it was; not of root's home."""
    own = [home] if home.startswith("/") and len(home) > len("/root") else []
    for text in (*_secrets(environment), *own):
        one = text.encode("utf-8", "surrogateescape")
        content = content.replace(one, b"*" * len(one))
    return _IN_BYTES.sub(lambda found: b"*" * len(found[0]), content)


def _secrets(environment: Mapping[str, str]) -> list[str]:
    """The longest first."""
    named = {one.strip() for name, one in environment.items() if _SECRET.search(name)}
    return sorted((one for one in named if len(one) >= _LEAST_CHARACTERS), key=len, reverse=True)


def with_home(text: str, home: str) -> str:
    """`text` with `home` in place of each ``~`` that stands for one."""
    return re.sub(rf"(?<![\w/.~-])~{_END}", lambda _: home, text)


def without_homes(text: str, home: str = "") -> str:
    """`text` with ``~`` in place of `home` and of every home below ``/home`` or ``/Users``."""
    # Root's home is replaced only as a whole path, not where a path ends with its name.
    own = "" if home in ("/", "/root") else home.rstrip("/")
    pattern = f"{re.escape(own)}|{_HOMES}" if own.startswith("/") else _HOMES
    return re.sub(f"(?:{pattern}){_END}", "~", text)
