"""A cluster, which is a group of processes that measure together, and its members."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """The size of a group of processes that measure together.

    `shared_devices` is the number of GPUs that the processes share, 0 if each has GPUs of its own.
    """

    processes: int
    shared_devices: int = 0


# A process that is in no group has neither an index nor an address. The single process of a group
# has both.
ALONE = Cluster(processes=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterMember:
    """A process of a cluster: its index, and the addresses of all members.

    `addresses` are texts such as ``host:port``, by index. `hosts` is the number of hosts on which
    the members are: each host has the same number of members, in the order of their indices.
    `shared_devices` is the number of GPUs that all members share, 0 if each has its own devices.
    """

    index: int
    addresses: tuple[str, ...]
    hosts: int = 1
    shared_devices: int = 0

    @property
    def process_count(self) -> int:
        return len(self.addresses)

    @property
    def processes_per_host(self) -> int:
        """The number of members on each host."""
        return self.process_count // self.hosts

    @property
    def host_names(self) -> tuple[str, ...]:
        """The hosts of all members, each host once, IPv6 addresses without brackets."""
        names = (address.rpartition(":")[0].strip("[]") for address in self.addresses)
        return tuple(dict.fromkeys(names))


def cluster_members(
    cluster: Cluster, addresses: Iterable[str], host_count: int = 1
) -> tuple[ClusterMember, ...]:
    """Return the members of `cluster` on `host_count` hosts, in the order of `addresses`."""
    listed = tuple(addresses)
    return tuple(
        ClusterMember(
            index=index, addresses=listed, hosts=host_count, shared_devices=cluster.shared_devices
        )
        for index in range(cluster.processes)
    )
