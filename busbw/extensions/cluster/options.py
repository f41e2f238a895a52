"""The options of sessions that measure on several hosts: --hosts, --cluster, and their details."""

from __future__ import annotations

from busbw.session.option import HOSTS_GROUP, Option, argument_type, expand_home, parse_text


@argument_type
def _parse_scheduler(text: str) -> str:
    """Return the address of a Dask scheduler, or the absolute path of its scheduler file."""
    return text if "://" in text else str(expand_home(text).absolute())


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
        "type": parse_text,
        "metavar": "PYTHON",
        "help": "With --hosts: run this Python on the hosts, a command for their shell. This "
        "Python needs the framework. Default: python3",
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
