"""Read --hosts, --cluster and their options, and make the hosts of a session from them.

`--hosts=tpu` means the hosts of the TPU slice to which this host belongs. On GKE and on some TPU
VMs, environment variables name these hosts. Elsewhere Google's metadata server names the hosts. A
request is sent to the server only if TPU chips are attached to this host. A framework could name
the hosts, too, but would wait forever for the other hosts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from busbw import storage
from busbw.driver.transport import RemoteHosts
from busbw.frameworks import FRAMEWORKS
from busbw.hardware import has_tpu_chips
from busbw.model.variables import STACK_VARIABLES
from busbw.model.words import DeviceClass
from busbw.session.option import expand_home
from busbw.session.options import Options
from busbw.storage import reraise_as

# The attribute of Google's metadata server that names the hosts of a TPU slice.
_ENDPOINTS_URL = (
    "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"
    "worker-network-endpoints"
)


def fetch_slice_endpoints() -> str:
    """Return the endpoints of this TPU slice, as a comma list from Google's metadata server.

    Each host of the slice has an endpoint such as ``unknown:unknown:10.0.0.2``, whose third part is
    the address of the host. The text is empty if no server answers.
    """
    # Most sessions do not need urllib, whose import takes as long as the rest of this extension.
    import urllib.request

    request = urllib.request.Request(_ENDPOINTS_URL, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=2.0) as reply:
            return str(reply.read(2**20), errors="replace")
    except OSError:
        return ""


def find_slice_hosts(environment: Mapping[str, str], has_chips: bool) -> tuple[str, ...]:
    """Return the names or addresses of the hosts of the TPU slice to which this host belongs.

    The tuple is empty if the hosts are unknown, or if the user told this host to use only its own
    chips. `environment` has the environment variables of this process. `has_chips` is whether TPU
    chips are attached to this host. Without chips the metadata server is not asked.
    """
    if environment.get("TPU_PROCESS_BOUNDS") == "1,1,1":
        return ()
    names = environment.get("TPU_WORKER_HOSTNAMES", "")
    if not names and has_chips and not environment.get("TPU_SKIP_MDS_QUERY"):
        endpoints = fetch_slice_endpoints().split(",")
        names = ",".join([*endpoint.split(":"), "", ""][2] for endpoint in endpoints)
    return tuple(name.strip() for name in names.split(",")) if names else ()


# The name of a host must not be read as an option by ssh, or as more than a word by a shell.
_HOST_NAME_PATTERN = re.compile(r"(?!-)[A-Za-z0-9_.@:%/\[\]-]{1,255}")


def hosts_of(values: Mapping[str, Any], environment: Mapping[str, str]) -> RemoteHosts | None:
    """Return the RemoteHosts on which a session measures, or None without --hosts and --cluster.

    `values` maps the names of options, such as ``host_python``, to their values. `environment` has
    the environment variables of this process. Raises ValueError if an option is wrong, or if a
    package that is needed to reach the hosts is missing.
    """
    with reraise_as(
        ValueError,
        ImportError,
        where="--hosts and --cluster need `pip install 'busbw[cluster]'`: ",
    ):
        if values.get("hosts"):
            return _read_ssh_hosts(values, environment)
        if values.get("cluster"):
            return _read_dask_hosts(values)
    return None


def parse_hosts(text: str) -> tuple[str, ...]:
    """Return the names of the hosts in `text`, the value of --hosts.

    `text` is a comma list, ``@FILE`` for a file with a host in each line, or ``tpu`` for the hosts
    of this TPU slice. Comments in the file begin with ``#``. Raises ValueError for a file that
    cannot be read, an invalid name or no name.
    """
    hosts = tuple(host.strip() for host in text.split(","))
    if text == "tpu":
        hosts = find_slice_hosts(os.environ, has_tpu_chips())
    elif text.startswith("@"):
        with reraise_as(ValueError, ValueError, where=f"--hosts: {text}: "):
            lines = storage.read(expand_home(text[1:])).decode().splitlines()
        hosts = tuple(host for line in lines if (host := line.partition("#")[0].strip()))
    if not hosts:
        raise ValueError(f"--hosts: {text}: expected names of hosts, got none")
    for host in hosts:
        if not _HOST_NAME_PATTERN.fullmatch(host):
            raise ValueError(f"--hosts: expected hosts that ssh connects to, got {host[:100]!r}")
    return hosts


def _read_ssh_hosts(values: Mapping[str, Any], environment: Mapping[str, str]) -> RemoteHosts:
    """Return the RemoteHosts that --hosts names.

    The arguments are those of `hosts_of`. Raises ValueError if --hosts is wrong, or if --processes
    is not a multiple of the number of hosts.
    """
    from .over_ssh import SshEngine
    from .transport import ClusterTransport

    hosts = parse_hosts(values["hosts"])
    count, processes = len(hosts), values.get("processes")
    if processes is not None and processes % count:
        raise ValueError(
            f"--hosts: {count} hosts cannot share --processes={processes} equally; "
            f"expected --processes={count}, or a multiple of it"
        )
    python = values.get("host_python") or "python3"
    variables = {name: environment[name] for name in STACK_VARIABLES if name in environment}
    return RemoteHosts(
        count=count,
        make_transport=lambda bundle: ClusterTransport(
            bundle, SshEngine(hosts=hosts, folder=bundle, python=python), variables
        ),
    )


def _read_dask_hosts(values: Mapping[str, Any]) -> RemoteHosts:
    """Return the RemoteHosts that the Dask scheduler of --cluster knows.

    `values` maps the names of options to their values. Raises ValueError without --processes, which
    is the number of Dask workers.
    """
    from .over_dask import DaskEngine
    from .transport import ClusterTransport

    count = values.get("processes")
    if count is None:
        raise ValueError("--cluster: expected --processes=N, the number of Dask workers")
    return RemoteHosts(
        count=count,
        make_transport=lambda bundle: ClusterTransport(
            bundle,
            DaskEngine(
                scheduler=values["cluster"],
                worker_count=count,
                trusts_network=bool(values.get("cluster_trust_network")),
            ),
            {},
        ),
    )


def check_can_measure_alone(options: Options, has_chips: bool) -> None:
    """Raise ValueError if a session would wait forever for the other hosts of a TPU slice.

    This happens if the session measures the TPUs of this host only, and their slice has more hosts.
    No error is raised for other devices, for scripted frameworks, or if the options name hosts.
    `has_chips` is whether TPU chips are attached to this host.
    """
    is_scripted = all(FRAMEWORKS[name].is_scripted for name in options.frameworks)
    may_be_tpu = options.device is DeviceClass.TPU or (options.device is None and has_chips)
    if is_scripted or options.remote or not may_be_tpu:
        return
    names = find_slice_hosts(os.environ, has_chips)
    if len(names) > 1:
        raise ValueError(
            f"this host is one of {len(names)} of its TPU slice, and would wait for the others "
            "for ever; --hosts=tpu measures on all of them by ssh, --cluster where Dask "
            "workers run on them, and TPU_PROCESS_BOUNDS=1,1,1 with TPU_VISIBLE_CHIPS on this host "
            "alone"
        )
