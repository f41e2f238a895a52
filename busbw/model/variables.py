"""Environment variables: which of them busbw records, and how secrets are removed.

Baselines, results and logs must contain no secrets, because anybody may read them. A variable is
recorded if its name begins like the variables of a framework, of CUDA or of NCCL (for example with
``XLA_``), and does not look like the name of a secret. User names and passwords are removed from
URLs in the value, and home directories are written as ``~``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Shown instead of a value that may be a secret.
HIDDEN_VALUE = "(set)"

# This variable names the folder in which workers keep recordings of the profiler, so that users can
# look at them. Without it they are removed.
RECORDINGS_VARIABLE = "BUSBW_RECORDINGS"

# This variable names the folder in which a worker keeps compiled programs, so that later workers of
# the session need not compile them again.
PROGRAMS_VARIABLE = "BUSBW_KEPT_PROGRAMS"

_RECORDED_PREFIXES = ("XLA_", "JAX_", "TF_", "NCCL_", "LIBTPU_", "TPU_", "CUDA_")
# These have the prefix of TensorFlow, but hold the addresses of a session's processes, or belong to
# Terraform.
_UNRECORDED_PREFIXES = ("TF_CONFIG", "TF_CLI_", "TF_VAR_")
# LD_PRELOAD can replace functions of every library, such as the allocator or the clock.
_PRELOAD = "LD_PRELOAD"

# A variable with one of these words in its name may hold a secret.
_SECRET_PATTERN = re.compile("TOKEN|KEY|SECRET|PASS|CRED|AUTH", re.IGNORECASE)
# Shorter values would mask ordinary words of a log.
_MIN_SECRET_CHARACTERS = 8

# A home directory of any machine, which may be below another folder, or the home of root.
_HOMES = r"(?:/[\w.+-]+)*?/(?:home|Users)/[^/\s:;,='\"()]+|(?<![\w.~-])/root"
_HOME_END = r"(?=$|[/\s:;,='\"()])"

_URL_CREDENTIALS_PATTERN = re.compile(r"(?<=://)[^\s/'\"<>]+(?=@)")
_MASK = "***"

# The variable of glibc's settings, and the setting for huge pages.
_TUNABLES = "GLIBC_TUNABLES"
_HUGE_PAGES = "glibc.malloc.hugetlb=1"

# Variables that change what XLA compiles begin with one of these.
_COMPILER_PREFIXES = ("XLA_", "LIBTPU_", "JAX_", "TPU_MEGACORE")

# Variables that are locked with a stack. Variables of the machine, of the process, or of the choice
# of devices are left out, because a stack may be measured elsewhere.
_STACK_NAMES = """
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
STACK_VARIABLES = frozenset(_STACK_NAMES.split())

# Each names a library that is loaded instead of the installed library, which a lock would not know.
LIBRARY_VARIABLES = ("TPU_LIBRARY_PATH", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN")


def with_huge_pages(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` with glibc's setting for huge pages.

    With huge pages the measured time contains hardly any allocation of pages. glibc reads the
    setting only when a process starts.
    """
    if has_huge_pages(environment):
        return dict(environment)
    others = environment.get(_TUNABLES, "")
    return {**environment, _TUNABLES: f"{others}:{_HUGE_PAGES}" if others else _HUGE_PAGES}


def has_huge_pages(environment: Mapping[str, str]) -> bool:
    """Return whether `environment` has glibc's setting for huge pages."""
    return _HUGE_PAGES in environment.get(_TUNABLES, "")


def recorded_variables(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the variables of `environment` that may be recorded, with safe values.

    User names and passwords in URLs become ``***``. `home` (the user's home directory) and other
    home directories become ``~``.
    """
    names = [
        name
        for name in sorted(environment)
        if name == _PRELOAD
        or (name.startswith(_RECORDED_PREFIXES) and not name.startswith(_UNRECORDED_PREFIXES))
    ]
    return {
        name: shorten_homes(_URL_CREDENTIALS_PATTERN.sub(_MASK, environment[name]), home)
        for name in names
        if not _SECRET_PATTERN.search(name)
    }


def compiler_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that change how programs are compiled.

    The values are complete and may contain secrets. So they are used only for the key of a cache,
    and never shown.
    """
    return {
        name: environment[name]
        for name in sorted(environment)
        if name.startswith(_COMPILER_PREFIXES)
    }


def stack_variables(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the variables of `environment` that belong to a stack, for the lock of the stack.

    `home` and other home directories become ``~``, because other users read the lock file.
    """
    names = sorted(STACK_VARIABLES & environment.keys())
    return {name: shorten_homes(environment[name], home) for name in names}


def without_secrets(text: str, environment: Mapping[str, str], home: str) -> str:
    """Return `text`, such as an error message or the end of a log, without secrets.

    Values of secret variables in `environment`, and user names and passwords in URLs, become
    ``***``. `home` and other home directories become ``~``.
    """
    values = {value.strip() for name, value in environment.items() if _SECRET_PATTERN.search(name)}
    # If a secret contains another secret, the longer secret is replaced first.
    for secret in sorted(values, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET_CHARACTERS:
            text = text.replace(secret, _MASK)
    return shorten_homes(_URL_CREDENTIALS_PATTERN.sub(_MASK, text), home)


def expand_homes(text: str, home: str) -> str:
    """Return `text` with `home` in place of each ``~`` that stands for a home directory."""
    return re.sub(rf"(?<![\w/.~-])~{_HOME_END}", lambda _: home, text)


def shorten_homes(text: str, home: str = "") -> str:
    """Return `text` with ``~`` in place of each home directory.

    Home directories are `home` (if not empty), /root, and each folder in a folder /home or /Users.
    """
    # Root's home is replaced only as a whole path, not where a path ends with its name.
    folder = "" if home in ("/", "/root") else home.rstrip("/")
    pattern = f"{re.escape(folder)}|{_HOMES}" if folder.startswith("/") else _HOMES
    return re.sub(f"(?:{pattern}){_HOME_END}", "~", text)
