"""Connected hosts: their packets pass the relay, with its delay, rate, cuts and losses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.driver.workers import state, wait_until

from . import link
from .conftest import Listen
from .namespaces import NAMESPACES, Host, HostError
from .network import BURST_BYTES, DELAY_S, RATE_BITS_PER_S, Network, network

# A session that is killed with its network: it says the namespaces and the relay, and waits.
_OWNER = """
import time
from tests.hosts.network import network
with network(2) as made:
    print(made.relay.pid, *(host.namespace for host in made.hosts), flush=True)
    time.sleep(60)
"""
_BYTES = 4 * 2**20


def asked(host: Host, other: Host, count: int = 20, wait_s: float = 1.0) -> list[float | None]:
    """The seconds of so many datagrams to and fro; None for one that was lost."""
    command = [sys.executable, "-m", "tests.hosts.probes", "ask", other.address]
    found: list[float | None] = json.loads(host.run([*command, str(count), str(wait_s)]))
    return found


def sent_s(host: Host, other: Host, size: int) -> float:
    """The seconds that so many bytes take to `other`, and its answer back."""
    command = [sys.executable, "-m", "tests.hosts.probes", "send", other.address, str(size)]
    return float(host.run(command))


def test_a_datagram_takes_the_delay_there_and_the_delay_back(two: Network, listen: Listen) -> None:
    first, second = two.hosts
    listen(second, "echo")
    seconds = [each for each in asked(first, second, 50) if each is not None]
    assert len(seconds) == 50
    assert 2 * DELAY_S <= min(seconds) < 2 * DELAY_S + 0.001


def test_another_delay_holds_from_now_on(two: Network, listen: Listen) -> None:
    first, second = two.hosts
    listen(second, "echo")
    two.delay(0.02)
    seconds = [each for each in asked(first, second) if each is not None]
    assert 0.04 <= min(seconds) < 0.041


def test_no_packet_passes_the_relay_by(two: Network, listen: Listen) -> None:
    first, second = two.hosts
    listen(second, "echo")
    before = two.counts()["delivered"]
    asked(first, second, 30)
    assert two.counts()["delivered"] == before + 60


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


def test_a_cut_between_two_hosts_leaves_the_third_to_both(on_linux: None, listen: Listen) -> None:
    with network(3) as three:
        first, second, third = three.hosts
        for host in three.hosts:
            listen(host, "echo")
        three.cut(first, second)
        assert asked(first, second, 2, wait_s=0.1) == [None] * 2
        assert None not in [*asked(first, third, 2), *asked(second, third, 2)]


def test_bytes_arrive_though_packets_are_lost(two: Network, listen: Listen) -> None:
    first, second = two.hosts
    listen(second, "sink")
    two.lose(0.02)
    sent_s(first, second, 4 * _BYTES)
    assert two.counts()["lost"] > 0


def test_what_the_relay_does_not_accept_is_an_error_and_it_goes_on(two: Network) -> None:
    with pytest.raises(HostError, match="accepted are cut"):
        two.delay(-1)
    assert two.counts()["delivered"] == 0


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
