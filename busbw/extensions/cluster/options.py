"""The options of sessions that measure on several hosts: --hosts, --cluster, and their details."""

from __future__ import annotations

import re

from busbw.session.option import HOSTS_GROUP, Option, argument_type, expand_home, parse_text


@argument_type
def _parse_scheduler(text: str) -> str:
    """Return the address of a Dask scheduler, or the absolute path of its scheduler file."""
    return text if "://" in text else str(expand_home(text).absolute())


@argument_type
def _parse_python(text: str) -> str:
    """Return `text`, the command or path of a Python interpreter.

    Raises ArgumentTypeError if `text` begins with a hyphen, has characters that a shell could
    misread, such as spaces, or has more than 500 characters.
    """
    if not re.fullmatch(r"(?!-)[A-Za-z0-9_.~+/-]{1,500}", text):
        raise ValueError(f"expected a command or a path without spaces, got {text!r}")
    return text


@argument_type
def parse_variables(text: str) -> frozenset[str]:
    """Return the names of environment variables in a comma list, without the word ``none``.

    Raises ArgumentTypeError for a word that cannot be the name of a variable.
    """
    names = frozenset(name.strip() for name in text.split(","))
    for name in sorted(names):
        if not name.isidentifier():
            raise ValueError(f"expected names of variables, or none, got {name!r}")
    return names - {"none"}


HOSTS = Option(
    name="hosts",
    group=HOSTS_GROUP,
    arguments={
        "type": parse_text,
        "metavar": "LIST",
        "help": "Measure on these hosts, which ssh reaches, for example --hosts=node1,node2. @FILE "
        "reads one host per line; tpu means all hosts of this TPU slice. busbw need not be "
        "installed there",
    },
    excludes=("cluster",),
    exclusion_reason="which starts processes by ssh",
)
HOST_PYTHON = Option(
    name="host_python",
    group=HOSTS_GROUP,
    needs="hosts",
    arguments={
        "type": _parse_python,
        "metavar": "PYTHON",
        "help": "With --hosts: use this Python on the hosts. It needs the framework. Default: "
        "python3",
    },
)
HOST_ENV = Option(
    name="host_env",
    group=HOSTS_GROUP,
    needs="hosts",
    arguments={
        "type": parse_variables,
        "metavar": "LIST",
        "help": "With --hosts: copy these environment variables to the hosts, as a comma list; "
        "none copies nothing. Default: the variables that change the software, such as XLA_FLAGS "
        "and NCCL_ALGO",
    },
)
CLUSTER = Option(
    name="cluster",
    group=HOSTS_GROUP,
    arguments={
        "type": _parse_scheduler,
        "metavar": "ADDRESS",
        "help": "Start one process on each worker of this Dask cluster, for example "
        "--cluster=tls://head:8786 --processes=4. A path is read as the scheduler's "
        "--scheduler-file. The session waits for as many workers as --processes says",
    },
)
CLUSTER_TRUST_NETWORK = Option(
    name="cluster_trust_network",
    group=HOSTS_GROUP,
    needs="cluster",
    arguments={
        "action": "store_true",
        "help": "With --cluster: accept a scheduler without TLS on another machine. Whoever "
        "reaches it can run programs on the hosts",
    },
)
