"""The values that processes of the fake framework exchange."""

from __future__ import annotations

import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor

from busbw.driver.local import free_ports
from busbw.model.cluster import Cluster, ClusterMember, cluster_members
from busbw.worker.backends.fake.exchange import FakeAllGather

HOST = "127.0.0.1"

_LISTENS_S = 0.1


def _members(port: int, name: str) -> tuple[ClusterMember, ...]:
    return cluster_members(Cluster(processes=2), (f"{HOST}:{port}", name))


def _exchange(member: ClusterMember, value: float) -> list[list[float]]:
    return FakeAllGather(member)([value])


def test_two_groups_of_fake_processes_with_the_same_port_exchange_only_their_own_values() -> None:
    (port,) = free_ports(1, HOST, socket.AF_INET)
    ours, theirs = _members(port, "ours"), _members(port, "theirs")
    with ThreadPoolExecutor(4) as pool:

        def starts(member: ClusterMember, value: float) -> Future[list[list[float]]]:
            future = pool.submit(_exchange, member, value)
            time.sleep(_LISTENS_S)
            return future

        other, first = starts(theirs[1], 4.0), starts(ours[0], 1.0)
        second = starts(ours[1], 2.0)
        assert first.result() == second.result() == [[1.0], [2.0]]
        assert not other.done()
        assert starts(theirs[0], 3.0).result() == other.result() == [[3.0], [4.0]]
