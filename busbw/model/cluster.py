"""A group of processes that measure together: how many there are, and where each of them is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """How many `processes` a group has.

    `shared_devices` is how many GPUs they share; 0: each has its own.
    """

    processes: int
    shared_devices: int = 0


# A single process has neither index nor address; a cluster's only process has both.
ALONE = Cluster(processes=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterMember:
    """A process's index in its group, and the addresses of all, ``host:port`` by index.

    `hosts` is how many hosts they are on: as many processes on each, in the order of indices.
    `shared_devices` is how many GPUs all members share; 0: each has its own devices.
    """

    index: int
    addresses: tuple[str, ...]
    hosts: int = 1
    shared_devices: int = 0

    @property
    def count(self) -> int:
        return len(self.addresses)

    @property
    def on_host(self) -> int:
        return self.count // self.hosts

    @property
    def host_names(self) -> tuple[str, ...]:
        """The hosts in the addresses of all members, each once, IPv6 addresses without brackets."""
        names = (address.rpartition(":")[0].strip("[]") for address in self.addresses)
        return tuple(dict.fromkeys(names))


def members_of(
    cluster: Cluster, addresses: Iterable[str], hosts: int = 1
) -> tuple[ClusterMember, ...]:
    """Return the members of a cluster whose `addresses` are in the order of their indices."""
    listed = tuple(addresses)
    return tuple(
        ClusterMember(
            index=index, addresses=listed, hosts=hosts, shared_devices=cluster.shared_devices
        )
        for index in range(cluster.processes)
    )
