"""Read --hosts, --cluster and their options, and make the hosts of a session from them.

`--hosts=tpu` are the hosts of the TPU slice to which this host belongs. On GKE and on some TPU VMs,
environment variables name these hosts. Elsewhere Google's metadata server names them. The server is
asked only if TPU chips are attached to this host. No framework is asked, because a framework waits
forever for the other hosts.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from busbw import storage
from busbw.driver.bundle import Bundle
from busbw.driver.transport import Hosts
from busbw.frameworks import FRAMEWORKS
from busbw.hardware import has_tpu_chips
from busbw.model import variables
from busbw.model.words import Device
from busbw.session.option import expand_home
from busbw.session.options import Options
from busbw.storage import reraise_as

HOST_NAMES_VARIABLE = "TPU_WORKER_HOSTNAMES"
ENDPOINTS_ATTRIBUTE = "worker-network-endpoints"
_ONLY_OWN_CHIPS = ("TPU_PROCESS_BOUNDS", "1,1,1")
_SKIP_METADATA = "TPU_SKIP_MDS_QUERY"
_METADATA_URL = "http://metadata.google.internal/computeMetadata/v1/instance/attributes/"
_METADATA_TIMEOUT_S = 2.0


def fetch_metadata(name: str) -> str:
    """Return an attribute of this machine from Google's metadata server.

    `name` is the name of the attribute. Returns an empty text if no server answers.
    """
    # Most sessions do not need urllib, whose import takes as long as the rest of this extension.
    import urllib.error
    import urllib.request

    request = urllib.request.Request(_METADATA_URL + name, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=_METADATA_TIMEOUT_S) as reply:
            text: str = reply.read(2**20).decode(errors="replace")
            return text
    except (urllib.error.URLError, OSError):
        return ""


def find_slice_hosts(
    environment: Mapping[str, str],
    *,
    has_chips: Callable[[], bool] = has_tpu_chips,
    read_metadata: Callable[[str], str] = fetch_metadata,
) -> tuple[tuple[str, ...], str]:
    """Return the hosts of the TPU slice, and the name of the variable or attribute that names them.

    There are no hosts if they are unknown, or if this host was told to use only its own chips.
    `environment` are the environment variables of this process. The metadata server is asked by
    `read_metadata`, and only if `has_chips` says that TPU chips are attached.
    """
    name, only_own_chips = _ONLY_OWN_CHIPS
    if environment.get(name) == only_own_chips:
        return (), name
    names = _split_names(environment.get(HOST_NAMES_VARIABLE, ""))
    if names or environment.get(_SKIP_METADATA) or not has_chips():
        return names, HOST_NAMES_VARIABLE
    # An endpoint is such as ``unknown:unknown:10.0.0.2``; its third field is the address.
    endpoints = _split_names(read_metadata(ENDPOINTS_ATTRIBUTE))
    return tuple([*text.split(":"), "", ""][2] for text in endpoints), ENDPOINTS_ATTRIBUTE


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


# The value of --hosts that means all hosts of this TPU slice.
_TPU_SLICE = "tpu"

# The name of a host must not be read as an option by ssh, or as more than a word by a shell.
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_.@:%/\[\]-]{1,255}")


def hosts_of(values: Mapping[str, Any], environment: Mapping[str, str]) -> Hosts | None:
    """Return the hosts on which a session measures; None without --hosts and --cluster.

    `values` maps the names of options to their values, `environment` is the environment of this
    process. Raises ValueError if an option is wrong or a package is missing.
    """
    for option, package, read in (
        ("hosts", "execnet", _read_ssh_hosts),
        ("cluster", "distributed", _read_dask_hosts),
    ):
        if values.get(option):
            if importlib.util.find_spec(package) is None:
                raise ValueError(
                    f"--{option}: {package} is not installed; expected it from `pip install "
                    "'busbw[cluster]'`"
                )
            return read(values, environment)
    return None


def parse_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts that the value of --hosts names.

    `text` is a comma list, ``@FILE`` for a file with a host in each line, or ``tpu`` for the hosts
    of this TPU slice. Raises ValueError for an invalid name, a repeated name or no name.
    """
    if text == _TPU_SLICE:
        hosts, source = find_slice_hosts(os.environ)
        if not hosts:
            raise ValueError(f"{_TPU_SLICE}: this host is none of a TPU slice, as {source} says")
    elif text.startswith("@"):
        hosts = _read_host_file(text[1:])
    else:
        hosts = tuple(host.strip() for host in text.split(","))
    for host, times in Counter(hosts).items():
        if not _HOST_NAME.fullmatch(host):
            raise ValueError(f"expected hosts that ssh connects to, got {host[:100]!r}")
        if times > 1:
            raise ValueError(
                f"expected each host once, got {host!r} twice; --processes says how many processes "
                "the hosts share"
            )
    return hosts


def _read_host_file(name: str) -> tuple[str, ...]:
    """Return the hosts in a file: a host in each line, and comments after ``#``.

    Raises ValueError if the file cannot be read or names no host.
    """
    with reraise_as(ValueError, ValueError, where=f"@{name}: "):
        lines = storage.read(expand_home(name)).decode().splitlines()
        hosts = tuple(host for line in lines if (host := line.partition("#")[0].strip()))
        if not hosts:
            raise ValueError("expected a host in each line, got none")
    return hosts


def _read_ssh_hosts(values: Mapping[str, Any], environment: Mapping[str, str]) -> Hosts:
    """Return the hosts of --hosts. Raises ValueError if the option is wrong."""
    with reraise_as(ValueError, ValueError, where="--hosts: "):
        hosts = parse_hosts(values["hosts"])
    count, processes = len(hosts), values.get("processes")
    if processes is not None and processes % count:
        raise ValueError(
            f"--hosts: {count} hosts cannot share --processes={processes} equally; "
            f"expected --processes={count}, or a multiple of it"
        )

    def make_transport(bundle: Bundle) -> Any:
        from .over_ssh import SshEngine
        from .transport import ClusterTransport

        engine = SshEngine(
            hosts=hosts,
            folder=bundle,
            python=values.get("host_python") or "python3",
            environment=forwarded_variables(values.get("host_env"), environment),
        )
        return ClusterTransport(bundle, engine)

    return Hosts(count=count, make_transport=make_transport)


def forwarded_variables(
    names: frozenset[str] | None, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment variables to copy to the hosts, with their values.

    `names` are the variables of --host-env. None, without the option, stands for the variables that
    change the measured software, such as XLA_FLAGS. Variables that are not set are left out.
    """
    names = variables.STACK_VARIABLES if names is None else names
    return {name: environment[name] for name in sorted(names) if name in environment}


def _read_dask_hosts(values: Mapping[str, Any], environment: Mapping[str, str]) -> Hosts:
    """Return the hosts of --cluster. Raises ValueError without --processes."""
    from .over_dask import DaskEngine
    from .transport import ClusterTransport

    count = values.get("processes")
    if count is None:
        raise ValueError("--cluster: expected --processes=N, the number of Dask workers")
    trusts_network = bool(values.get("cluster_trust_network"))
    return Hosts(
        count=count,
        make_transport=lambda bundle: ClusterTransport(
            bundle, DaskEngine(values["cluster"], count, trusts_network=trusts_network)
        ),
    )


def check_can_measure_alone(options: Options, has_chips: bool) -> None:
    """Raise ValueError if TPUs of this host cannot be measured because its slice has more hosts.

    `has_chips` is whether TPU chips are attached to this host. Returns for other devices, and if
    the options name hosts.
    """
    is_scripted = all(FRAMEWORKS[name].is_scripted for name in options.frameworks)
    may_be_tpu = options.device is Device.TPU or (options.device is None and has_chips)
    if is_scripted or options.remote is not None or not may_be_tpu:
        return
    names, source = find_slice_hosts(os.environ, has_chips=lambda: has_chips)
    if len(names) > 1:
        raise ValueError(
            f"this host is one of {len(names)} of its TPU slice ({source}), and would wait for the "
            "others for ever; --hosts=tpu measures on all of them by ssh, --cluster where Dask "
            "workers run on them, and TPU_PROCESS_BOUNDS=1,1,1 with TPU_VISIBLE_CHIPS on this host "
            "alone"
        )
