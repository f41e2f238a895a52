"""What --hosts, --cluster and their options ask for, and the transport that follows from them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from busbw.driver.bundle import Bundle
from busbw.driver.transport import HostError, Hosts
from busbw.model import variables

if TYPE_CHECKING:
    from .over_dask import DaskCluster
    from .over_ssh import SshHosts
    from .transport import ClusterTransport


def hosts_of(values: Mapping[str, Any], environment: Mapping[str, str]) -> Hosts | None:
    """Return None without --hosts and --cluster. Raises ValueError.

    Without --processes the scheduler of --cluster is asked how many workers it has.
    """
    hosts, scheduler, processes = values["hosts"], values["cluster"], values["processes"]
    if hosts:
        if processes is not None and processes % len(hosts):
            raise ValueError(
                f"--hosts: {len(hosts)} hosts cannot share --processes={processes} equally; "
                f"expected --processes={len(hosts)}, or a multiple of it"
            )
        _check_installed("hosts", "execnet")
        return _hosts(len(hosts), ssh_hosts_of(values, environment))
    if not scheduler:
        return None
    _check_installed("cluster", "distributed")
    from .over_dask import DaskCluster, count_of

    cluster = DaskCluster(
        scheduler=scheduler,
        count=processes or 0,
        trusts_network=values["cluster_trust_network"],
    )
    try:
        count = processes or count_of(cluster)
    except HostError as error:
        raise ValueError(f"--cluster: {error}") from error
    if not count:
        raise ValueError(
            f"--cluster: {scheduler} has no Dask workers yet; --processes=N waits for N of them"
        )
    return _hosts(count, replace(cluster, count=count))


def _check_installed(option: str, package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ValueError(
            f"--{option}: {package} is not installed; expected it from `pip install "
            "'busbw[cluster]'`"
        )


def ssh_hosts_of(values: Mapping[str, Any], environment: Mapping[str, str]) -> SshHosts:
    """Return the hosts of --hosts; without --host-env with the variables that change software."""
    from .over_ssh import SshHosts

    names = values["host_env"] if values["host_env"] is not None else variables.STACK
    return SshHosts(
        hosts=values["hosts"],
        python=values["host_python"] or "python3",
        environment={name: environment[name] for name in sorted(names) if name in environment},
    )


def _hosts(count: int, reached: SshHosts | DaskCluster) -> Hosts:
    def transport(bundle: Bundle) -> ClusterTransport:
        from .transport import ClusterTransport

        return ClusterTransport(bundle, reached.engine(bundle))

    return Hosts(count=count, transport=transport)
