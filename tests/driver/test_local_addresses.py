"""Addresses of this host: a member for each role, on ports that nobody else has."""

from __future__ import annotations

from busbw.driver.local import free_ports, local_members
from busbw.model.training import Cluster, Role


def test_a_member_has_its_role_and_the_addresses_of_all() -> None:
    cluster = Cluster(counts={"chief": 1, "worker": 2, "ps": 1}, asked="chief")
    members = local_members(cluster)
    assert [member.role.name for member in members] == ["chief 0", "worker 0", "worker 1", "ps 0"]
    assert members[2].role == Role(task="worker", index=1)
    addresses = members[2].addresses
    assert all(member.addresses == addresses for member in members)
    assert {task: len(found) for task, found in addresses.items()} == {
        "chief": 1,
        "worker": 2,
        "ps": 1,
    }
    assert len({one for found in addresses.values() for one in found}) == 4


def test_free_ports_differ_and_are_above_the_reserved_ones() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert min(ports) >= 1024
