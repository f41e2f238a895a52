"""Read --hosts, --cluster and their options, and make the hosts of a session from them.

`--hosts=tpu` means the hosts of the TPU slice to which this host belongs. On GKE and on some TPU
VMs, environment variables name these hosts. Elsewhere Google's metadata server names the hosts. A
request is sent to the server only if TPU chips are attached to this host. A framework could name
the hosts, too, but would wait forever for the other hosts.
"""

from __future__ import annotations

import os
import re
from collections import Counter
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

# The environment variable, and the attribute of the metadata server, that name a slice's hosts.
HOST_NAMES_VARIABLE = "TPU_WORKER_HOSTNAMES"
ENDPOINTS_ATTRIBUTE = "worker-network-endpoints"
_METADATA_URL = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"


def fetch_google_metadata(name: str) -> str:
    """Return the text of an attribute of this machine, from Google's metadata server.

    `name` is the name of the attribute. Returns an empty text if no server answers.
    """
    # Most sessions do not need urllib, whose import takes as long as the rest of this extension.
    import urllib.request

    request = urllib.request.Request(_METADATA_URL + name, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=2.0) as reply:
            return str(reply.read(2**20), errors="replace")
    except OSError:
        return ""


def find_slice_hosts(
    environment: Mapping[str, str], has_chips: bool
) -> tuple[tuple[str, ...], str]:
    """Return the hosts of this TPU slice, and the variable or attribute that names the hosts.

    The tuple of hosts is empty if the hosts are unknown, or if the user told this host to use only
    its own chips. `environment` are the environment variables of this process. `has_chips` is
    whether TPU chips are attached to this host; otherwise the metadata server is not asked.
    """
    if environment.get("TPU_PROCESS_BOUNDS") == "1,1,1":
        return (), "TPU_PROCESS_BOUNDS"
    names = _split_names(environment.get(HOST_NAMES_VARIABLE, ""))
    if names or environment.get("TPU_SKIP_MDS_QUERY") or not has_chips:
        return names, HOST_NAMES_VARIABLE
    # An endpoint is such as ``unknown:unknown:10.0.0.2``; its third field is the address.
    endpoints = _split_names(fetch_google_metadata(ENDPOINTS_ATTRIBUTE))
    return tuple([*text.split(":"), "", ""][2] for text in endpoints), ENDPOINTS_ATTRIBUTE


def _split_names(text: str) -> tuple[str, ...]:
    """Return the words of a comma list, without empty words."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


# The name of a host must not be read as an option by ssh, or as more than a word by a shell.
_HOST_NAME_PATTERN = re.compile(r"(?!-)[A-Za-z0-9_.@:%/\[\]-]{1,255}")


def hosts_of(values: Mapping[str, Any], environment: Mapping[str, str]) -> RemoteHosts | None:
    """Return the RemoteHosts on which a session measures; None without --hosts and --cluster.

    `values` maps the names of options, such as ``host_python``, to their values. `environment` are
    the environment variables of this process. Raises ValueError if an option is wrong or a package
    is missing.
    """
    needs = "--hosts and --cluster need `pip install 'busbw[cluster]'`: "
    with reraise_as(ValueError, ImportError, where=needs):
        if values.get("hosts"):
            return _read_ssh_hosts(values, environment)
        if values.get("cluster"):
            return _read_dask_hosts(values)
    return None


def parse_hosts(text: str) -> tuple[str, ...]:
    """Return the names of the hosts in `text`, the value of --hosts.

    `text` is a comma list, ``@FILE`` for a file with a host in each line, or ``tpu`` for the hosts
    of this TPU slice. Comments in the file begin with ``#``. Raises ValueError for a file that
    cannot be read, an invalid name, a repeated name or no name.
    """
    source, hosts = text, tuple(host.strip() for host in text.split(","))
    if text == "tpu":
        hosts, source = find_slice_hosts(os.environ, has_tpu_chips())
    elif text.startswith("@"):
        with reraise_as(ValueError, ValueError, where=f"{text}: "):
            lines = storage.read(expand_home(text[1:])).decode().splitlines()
        hosts = tuple(host for line in lines if (host := line.partition("#")[0].strip()))
    if not hosts:
        raise ValueError(f"{text}: expected names of hosts, got none from {source}")
    for host, times in Counter(hosts).items():
        if not _HOST_NAME_PATTERN.fullmatch(host):
            raise ValueError(f"expected hosts that ssh connects to, got {host[:100]!r}")
        if times > 1:
            raise ValueError(
                f"expected each host once, got {host!r} twice; --processes says how many processes "
                "the hosts share"
            )
    return hosts


def _read_ssh_hosts(values: Mapping[str, Any], environment: Mapping[str, str]) -> RemoteHosts:
    """Return the RemoteHosts of --hosts, from the same arguments as `hosts_of`.

    Raises ValueError if the option is wrong, or if the hosts cannot share --processes equally.
    """
    from .over_ssh import SshEngine
    from .transport import ClusterTransport

    with reraise_as(ValueError, ValueError, where="--hosts: "):
        hosts = parse_hosts(values["hosts"])
    count, processes = len(hosts), values.get("processes")
    if processes is not None and processes % count:
        raise ValueError(
            f"--hosts: {count} hosts cannot share --processes={processes} equally; "
            f"expected --processes={count}, or a multiple of it"
        )
    python = values.get("host_python") or "python3"
    variables = forwarded_variables(values.get("host_env"), environment)
    return RemoteHosts(
        count=count,
        make_transport=lambda bundle: ClusterTransport(
            bundle, SshEngine(hosts=hosts, folder=bundle, python=python), variables
        ),
    )


def forwarded_variables(
    names: frozenset[str] | None, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables to copy to the hosts, with their values in `environment`.

    `names` are the variables that --host-env names. If `names` is None, the variables that change
    the measured software are copied, such as XLA_FLAGS. Variables that are not set are left out.
    """
    names = STACK_VARIABLES if names is None else names
    return {name: environment[name] for name in names if name in environment}


def _read_dask_hosts(values: Mapping[str, Any]) -> RemoteHosts:
    """Return the RemoteHosts of --cluster, from the `values` of options by name.

    Raises ValueError without --processes, which is the number of Dask workers.
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
    """Raise ValueError if this host cannot measure its TPUs because its slice has more hosts.

    `has_chips` is whether TPU chips are attached to this host. Nothing is raised for other devices,
    for scripted frameworks, or if the options name hosts.
    """
    is_scripted = all(FRAMEWORKS[name].is_scripted for name in options.frameworks)
    may_be_tpu = options.device is DeviceClass.TPU or (options.device is None and has_chips)
    if is_scripted or options.remote or not may_be_tpu:
        return
    names, source = find_slice_hosts(os.environ, has_chips)
    if len(names) > 1:
        raise ValueError(
            f"this host is one of {len(names)} of its TPU slice ({source}), and would wait for the "
            "others for ever; --hosts=tpu measures on all of them by ssh, --cluster where Dask "
            "workers run on them, and TPU_PROCESS_BOUNDS=1,1,1 with TPU_VISIBLE_CHIPS on this host "
            "alone"
        )
