"""Addresses of this host: a place for each role, on ports that nobody else has."""

from __future__ import annotations

from busbw.driver.local import free_ports, local_places
from busbw.model import Cluster, Role


def test_a_place_tells_its_role_and_the_addresses_of_all() -> None:
    cluster = Cluster(counts={"chief": 1, "worker": 2, "ps": 1}, asked="chief")
    places = local_places(cluster)
    assert [place.role.name for place in places] == ["chief 0", "worker 0", "worker 1", "ps 0"]
    assert places[2].role == Role(task="worker", index=1)
    addresses = places[2].addresses
    assert all(place.addresses == addresses for place in places)
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
