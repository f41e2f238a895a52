"""The hosts that --hosts, --cluster and their options name."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from busbw.driver.bundle import Bundle
from busbw.driver.transport import HostError, Hosts
from busbw.model import variables


def hosts_of(values: Mapping[str, Any], environment: Mapping[str, str]) -> Hosts | None:
    """Return the hosts of a session, None without --hosts and --cluster. Raises ValueError.

    Without --processes the scheduler of --cluster is asked how many workers it has.
    """
    for option, package, read in (("hosts", "execnet", _ssh), ("cluster", "distributed", _dask)):
        if values[option]:
            if importlib.util.find_spec(package) is None:
                raise ValueError(
                    f"--{option}: {package} is not installed; expected it from `pip install "
                    "'busbw[cluster]'`"
                )
            return read(values, environment)
    return None


def _ssh(values: Mapping[str, Any], environment: Mapping[str, str]) -> Hosts:
    count, processes = len(values["hosts"]), values["processes"]
    if processes is not None and processes % count:
        raise ValueError(
            f"--hosts: {count} hosts cannot share --processes={processes} equally; "
            f"expected --processes={count}, or a multiple of it"
        )

    def transport(bundle: Bundle) -> Any:
        from .over_ssh import SshEngine
        from .transport import ClusterTransport

        engine = SshEngine(
            hosts=values["hosts"],
            folder=bundle,
            python=values["host_python"] or "python3",
            environment=forwarded(values["host_env"], environment),
        )
        return ClusterTransport(bundle, engine)

    return Hosts(count=count, transport=transport)


def forwarded(names: frozenset[str] | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of --host-env; without it those that change software."""
    names = variables.STACK if names is None else names
    return {name: environment[name] for name in sorted(names) if name in environment}


def _dask(values: Mapping[str, Any], environment: Mapping[str, str]) -> Hosts:
    from .over_dask import DaskEngine, count_of
    from .transport import ClusterTransport

    scheduler, trusts_network = values["cluster"], values["cluster_trust_network"]
    try:
        count = values["processes"] or count_of(scheduler, trusts_network)
    except HostError as error:
        raise ValueError(f"--cluster: {error}") from error
    if not count:
        raise ValueError(
            f"--cluster: {scheduler} has no Dask workers yet; --processes=N waits for N of them"
        )
    return Hosts(
        count=count,
        transport=lambda bundle: ClusterTransport(
            bundle, DaskEngine(scheduler, count, trusts_network=trusts_network)
        ),
    )
