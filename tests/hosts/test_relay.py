"""What the relay does with a packet: deliver it later, lose it, or find it cut."""

from __future__ import annotations

import random
import socket

import pytest

from .relay import Switch

HOSTS = {f"host{i}": socket.inet_aton(f"10.77.0.{i + 1}") for i in range(3)}


def packet(target: str, text: bytes = b"") -> bytes:
    """The least that is an IPv4 packet to `target`."""
    return bytes([0x45]) + bytes(15) + HOSTS.get(target, b"\x08\x08\x08\x08") + text


def switch(loss: float = 0.0) -> Switch:
    return Switch(hosts=HOSTS, delay_s=0.005, loss=loss, chance=random.Random(2))


def test_a_packet_is_delivered_to_the_host_with_its_address_when_its_delay_is_over() -> None:
    tried = switch()
    tried.take("host0", packet("host2", b"x"), 10.0)
    assert tried.next_s() == 10.005
    assert list(tried.due(10.004)) == []
    assert list(tried.due(10.006)) == [("host2", packet("host2", b"x"))]
    assert tried.next_s() is None
    assert tried.counts.delivered == 1 and tried.counts.latest_s == pytest.approx(0.001)


def test_packets_stay_in_order_also_those_of_the_same_moment() -> None:
    tried = switch()
    sent = [packet("host1", bytes([number])) for number in range(9)]
    for each in sent:
        tried.take("host0", each, 1.0)
    assert [found for _, found in tried.due(2.0)] == sent


def test_a_shorter_delay_holds_for_the_packets_that_come_after_it() -> None:
    tried = switch()
    tried.take("host0", packet("host1", b"early"), 1.0)
    assert tried.order({"do": "delay", "seconds": 0.001}) == {}
    tried.take("host0", packet("host1", b"late"), 1.0)
    assert [found[-4:] for _, found in tried.due(2.0)] == [b"late", b"arly"]


def test_a_cut_host_sends_and_gets_nothing_until_it_is_healed() -> None:
    tried = switch()
    tried.take("host0", packet("host1"), 1.0)
    tried.order({"do": "cut", "hosts": ["host1"]})
    assert list(tried.due(2.0)) == []
    tried.take("host1", packet("host0"), 2.0)
    tried.take("host0", packet("host2"), 2.0)
    assert [target for target, _ in tried.due(3.0)] == ["host2"]
    tried.order({"do": "heal"})
    tried.take("host1", packet("host0"), 3.0)
    assert [target for target, _ in tried.due(4.0)] == ["host0"]
    assert tried.counts.cut == 2


def test_a_cut_between_two_hosts_leaves_the_third_connected_to_both() -> None:
    tried = switch()
    tried.order({"do": "cut", "hosts": ["host0", "host1"]})
    for source, target in [("host0", "host1"), ("host1", "host0")]:
        tried.take(source, packet(target), 1.0)
    for source, target in [("host0", "host2"), ("host2", "host1")]:
        tried.take(source, packet(target), 1.0)
    assert [target for target, _ in tried.due(2.0)] == ["host2", "host1"]


def test_about_as_many_packets_are_lost_as_was_asked_for() -> None:
    tried = switch(loss=0.25)
    for _ in range(4000):
        tried.take("host0", packet("host1"), 1.0)
    assert 900 < tried.counts.lost < 1100
    assert len(list(tried.due(2.0))) == 4000 - tried.counts.lost


def test_packets_for_nobody_and_packets_of_ipv6_are_dropped_and_counted() -> None:
    tried = switch()
    for each in (packet("nobody"), b"\x60" + bytes(39), b""):
        tried.take("host0", each, 1.0)
    assert list(tried.due(2.0)) == [] and tried.counts.unknown == 3


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"do": "cut", "hosts": []},
        {"do": "cut", "hosts": ["host7"]},
        {"do": "cut", "hosts": ["host0", "host1", "host2"]},
        {"do": "delay", "seconds": -1},
        {"do": "loss", "fraction": 1.5},
    ],
)
def test_what_is_no_order_is_refused_with_what_is_accepted(order: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"accepted are cut .* host0, host1, host2"):
        switch().order(order)
