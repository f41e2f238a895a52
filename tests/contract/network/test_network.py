"""Connected hosts: packets pass the relay, which delivers them later or finds them cut."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys

import pytest

from tests.contract.network import link
from tests.contract.network.conftest import Listen
from tests.contract.network.namespaces import NAMESPACES, Host, HostError
from tests.contract.network.network import BURST_BYTES, DELAY_S, RATE_BITS_PER_S, Network
from tests.contract.network.relay import Switch
from tests.helpers.workers import state, wait_until

# A session that is killed with its network: it says the namespaces and the relay, and waits.
_OWNER = """
import time
from tests.contract.network.network import network
with network(2) as made:
    print(made.relay.pid, *(host.namespace for host in made.hosts), flush=True)
    time.sleep(60)
"""
_BYTES = 4 * 2**20


def asked(host: Host, other: Host, count: int = 20, wait_s: float = 1.0) -> list[float | None]:
    """The seconds of so many datagrams to and fro; None for one that was lost."""
    command = [sys.executable, "-m", "tests.contract.network.probes", "ask", other.address]
    found: list[float | None] = json.loads(host.run([*command, str(count), str(wait_s)]))
    return found


def sent_s(host: Host, other: Host, size: int) -> float:
    """The seconds that so many bytes take to `other`, and its answer back."""
    command = [
        sys.executable,
        "-m",
        "tests.contract.network.probes",
        "send",
        other.address,
        str(size),
    ]
    return float(host.run(command))


def test_a_datagram_takes_the_delay_there_and_the_delay_back(two: Network, listen: Listen) -> None:
    first, second = two.hosts
    listen(second, "echo")
    seconds = [each for each in asked(first, second, 50) if each is not None]
    assert len(seconds) == 50
    assert 2 * DELAY_S <= min(seconds) < 2 * DELAY_S + 0.001


def test_no_packet_passes_the_relay_by(two: Network, listen: Listen) -> None:
    first, second = two.hosts
    listen(second, "echo")
    before = two.delivered()
    asked(first, second, 30)
    assert two.delivered() == before + 60


def test_bytes_take_the_time_of_the_links_rate(two: Network, listen: Listen) -> None:
    first, second = two.hosts
    listen(second, "sink")
    seconds = sent_s(first, second, _BYTES)
    expected_s = 2 * DELAY_S + (_BYTES - BURST_BYTES) * 8 / RATE_BITS_PER_S
    assert expected_s < seconds < 1.5 * expected_s


def test_a_host_that_is_slowed_tenfold_takes_ten_times_as_long(
    two: Network, listen: Listen
) -> None:
    first, second = two.hosts
    listen(second, "sink")
    two.slow(first)
    expected_s = 2 * DELAY_S + (_BYTES // 4 - BURST_BYTES) * 80 / RATE_BITS_PER_S
    assert expected_s < sent_s(first, second, _BYTES // 4) < 1.5 * expected_s


def test_a_cut_host_is_silent_and_can_be_reached_again_when_it_is_healed(
    two: Network, listen: Listen
) -> None:
    first, second = two.hosts
    listen(second, "echo")
    two.cut(second)
    assert asked(first, second, 3, wait_s=0.1) == [None] * 3
    two.heal()
    assert None not in asked(first, second, 3)


def test_what_the_relay_does_not_accept_is_an_error_and_it_goes_on(two: Network) -> None:
    with pytest.raises(HostError, match="accepted are cut"):
        two.cut(Host(name="host7", address="", namespace=""))
    assert two.delivered() == 0


def test_the_relay_removes_the_hosts_of_a_killed_owner_with_what_ran_there(on_linux: None) -> None:
    command = [sys.executable, "-c", _OWNER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        relay, *names = owner.stdout.readline().split()
        owner.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not any((NAMESPACES / name).exists() for name in names))
    assert wait_until(lambda: state(int(relay)) in ("", "Z"))


def test_the_cable_is_as_the_formula_takes_it_to_be() -> None:
    rate = RATE_BITS_PER_S / 8
    cable = link.Link(delay_s=DELAY_S, bytes_per_s=rate, burst_bytes=BURST_BYTES)
    assert cable == link.CABLE


HOSTS = {f"host{i}": socket.inet_aton(f"10.77.0.{i + 1}") for i in range(3)}


def packet(target: str, text: bytes = b"") -> bytes:
    """The least that is an IPv4 packet to `target`."""
    return bytes([0x45]) + bytes(15) + HOSTS.get(target, b"\x08\x08\x08\x08") + text


def switch() -> Switch:
    return Switch(hosts=HOSTS, delay_s=0.005)


def test_a_packet_is_delivered_to_the_host_with_its_address_when_its_delay_is_over() -> None:
    tried = switch()
    tried.take("host0", packet("host2", b"x"), 10.0)
    assert tried.next_s() == 10.005
    assert list(tried.due(10.004)) == []
    assert list(tried.due(10.006)) == [("host2", packet("host2", b"x"))]
    assert tried.next_s() is None
    assert tried.order({"do": "count"}) == {"delivered": 1}


def test_packets_stay_in_order_also_those_of_the_same_moment() -> None:
    tried = switch()
    sent = [packet("host1", bytes([number])) for number in range(9)]
    for each in sent:
        tried.take("host0", each, 1.0)
    assert [found for _, found in tried.due(2.0)] == sent


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


def test_a_cut_between_two_hosts_leaves_the_third_connected_to_both() -> None:
    tried = switch()
    tried.order({"do": "cut", "hosts": ["host0", "host1"]})
    for source, target in [("host0", "host1"), ("host1", "host0")]:
        tried.take(source, packet(target), 1.0)
    for source, target in [("host0", "host2"), ("host2", "host1")]:
        tried.take(source, packet(target), 1.0)
    assert [target for target, _ in tried.due(2.0)] == ["host2", "host1"]


def test_packets_for_nobody_and_packets_of_ipv6_are_dropped() -> None:
    tried = switch()
    for each in (packet("nobody"), b"\x60" + bytes(39), b""):
        tried.take("host0", each, 1.0)
    assert list(tried.due(2.0)) == []


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"do": "cut", "hosts": []},
        {"do": "cut", "hosts": ["host7"]},
        {"do": "cut", "hosts": ["host0", "host1", "host2"]},
    ],
)
def test_what_is_no_order_is_refused_with_what_is_accepted(order: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"accepted are cut .* host0, host1, host2"):
        switch().order(order)
