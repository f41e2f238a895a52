"""Environment variables that are recorded, and what no recorded text may hold.

Anybody may read baselines, results and logs. A variable is recorded if its name has a prefix of a
framework's, of CUDA's or of NCCL's, and does not look like that of a secret. User names and
passwords are removed from URLs in its value, and home directories are written as ``~``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# In place of a value that is not recorded.
HIDDEN = "(set)"

# The folder in which workers leave their profiler's recordings; without it they are removed.
RECORDINGS = "BUSBW_RECORDINGS"

# The folder where a worker keeps compiled programs for those that follow it in the session.
PROGRAMS = "BUSBW_KEPT_PROGRAMS"

_RECORDED = ("XLA_", "JAX_", "TF_", "NCCL_", "LIBTPU_", "TPU_", "CUDA_")
# The addresses of one session's processes, and variables of Terraform.
_NOT_RECORDED = ("TF_CONFIG", "TF_CLI_", "TF_VAR_")
# What replaces functions of every library: another allocator, or another clock.
_PRELOAD = "LD_PRELOAD"

# In the name of a variable.
_SECRET = re.compile("TOKEN|KEY|SECRET|PASS|CRED|AUTH", re.IGNORECASE)
# Shorter values would mask ordinary words of a log.
_LEAST_CHARACTERS = 8

# A home below any folder, as of several machines, and root's own.
_HOMES = r"(?:/[\w.+-]+)*?/(?:home|Users)/[^/\s:;,='\"()]+|(?<![\w.~-])/root"
_END = r"(?=$|[/\s:;,='\"()])"

_OF_URL = re.compile(r"(?<=://)[^\s/'\"<>]+(?=@)")
_MASK = "***"

# What glibc is told as a process starts.
_TUNABLES = "GLIBC_TUNABLES"
_HUGE_PAGES = "glibc.malloc.hugetlb=1"

# Variables that change what XLA compiles begin with one of these.
_COMPILING = ("XLA_", "LIBTPU_", "JAX_", "TPU_MEGACORE")

# Options of a stack, and not of the machine, of which devices take part, or of the process. They
# are locked with a stack.
_OF_STACK = """
XLA_FLAGS XLA_PYTHON_CLIENT_ALLOCATOR LIBTPU_INIT_ARGS TPU_MEGACORE
JAX_ALLOW_F16_REDUCTIONS JAX_CPU_COLLECTIVES_IMPLEMENTATION
JAX_CPU_ENABLE_ASYNC_DISPATCH JAX_DEFAULT_DTYPE_BITS JAX_DEFAULT_MATMUL_PRECISION
JAX_DISABLE_JIT JAX_DISABLE_MOST_OPTIMIZATIONS JAX_ENABLE_PGLE JAX_ENABLE_X64
JAX_EXEC_TIME_OPTIMIZATION_EFFORT JAX_MEMORY_FITTING_EFFORT JAX_MEMORY_FITTING_LEVEL
JAX_OPTIMIZATION_LEVEL JAX_PJRT_CLIENT_CREATE_OPTIONS JAX_USE_SHARDY_PARTITIONER
JAX_XLA_PROFILE_VERSION
NCCL_ALGO NCCL_BUFFSIZE NCCL_COLLNET_ENABLE NCCL_CROSS_NIC NCCL_CUMEM_ENABLE
NCCL_LAUNCH_MODE NCCL_MAX_CTAS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MIN_NCHANNELS
NCCL_NTHREADS NCCL_NVLS_ENABLE NCCL_P2P_LEVEL NCCL_PROTO
TF_CUDNN_DETERMINISTIC TF_DETERMINISTIC_OPS TF_ENABLE_ONEDNN_OPTS TF_GPU_ALLOCATOR
TF_GPU_THREAD_MODE TF_SET_ONEDNN_FPMATH_MODE TF_XLA_FLAGS
"""
STACK = frozenset(_OF_STACK.split())

# Name a library that is loaded in place of an installed one.
REPLACES = ("TPU_LIBRARY_PATH", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN")


def with_huge_pages(environment: Mapping[str, str]) -> dict[str, str]:
    """Add the setting of huge pages, so that an all-reduce is timed, and no page allocator.

    The C library reads it as a process starts.
    """
    if has_huge_pages(environment):
        return dict(environment)
    others = environment.get(_TUNABLES, "")
    return {**environment, _TUNABLES: f"{others}:{_HUGE_PAGES}" if others else _HUGE_PAGES}


def has_huge_pages(environment: Mapping[str, str]) -> bool:
    return _HUGE_PAGES in environment.get(_TUNABLES, "")


def recorded(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the recorded variables of `environment`; `home` is the user's home directory."""
    names = [
        name
        for name in sorted(environment)
        if name == _PRELOAD or (name.startswith(_RECORDED) and not name.startswith(_NOT_RECORDED))
    ]
    return {
        name: without_homes(_OF_URL.sub(_MASK, environment[name]), home)
        for name in names
        if not _SECRET.search(name)
    }


def of_compilers(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that change what is compiled, in full: for a cache key, never shown."""
    return {name: environment[name] for name in sorted(environment) if name.startswith(_COMPILING)}


def of_stack(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the variables that are part of a stack, with ``~`` for homes: anybody reads a lock."""
    names = sorted(STACK & environment.keys())
    return {name: without_homes(environment[name], home) for name in names}


def public(text: str, environment: Mapping[str, str], home: str) -> str:
    """Remove secrets of `environment`, credentials in URLs, and homes from a process's `text`."""
    values = {value.strip() for name, value in environment.items() if _SECRET.search(name)}
    # If a secret contains another secret, the longer secret is replaced first.
    for secret in sorted(values, key=len, reverse=True):
        if len(secret) >= _LEAST_CHARACTERS:
            text = text.replace(secret, _MASK)
    return without_homes(_OF_URL.sub(_MASK, text), home)


def with_home(text: str, home: str) -> str:
    """Replace each ``~`` that stands for a home by `home`."""
    return re.sub(rf"(?<![\w/.~-])~{_END}", lambda _: home, text)


def without_homes(text: str, home: str = "") -> str:
    """Replace `home` and every home below ``/home`` or ``/Users`` by ``~``."""
    # Root's home is replaced only as a whole path, not where a path ends with its name.
    folder = "" if home in ("/", "/root") else home.rstrip("/")
    pattern = f"{re.escape(folder)}|{_HOMES}" if folder.startswith("/") else _HOMES
    return re.sub(f"(?:{pattern}){_END}", "~", text)
