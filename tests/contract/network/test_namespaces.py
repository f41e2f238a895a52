"""Hosts: names, addresses and processes of their own, and nothing left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.contract.network import namespaces
from tests.contract.network.namespaces import ETC, NAMESPACES, Host, HostError, hosts
from tests.helpers.workers import wait_until

_CONNECT = """
import socket
with socket.create_server(("127.0.0.1", 0)) as port, socket.create_connection(port.getsockname()):
    pass
"""
# An owner that is killed: it says the namespace of its host, and waits.
_OWNER = """
import sys, time
from tests.contract.network.namespaces import hosts
with hosts(1) as made:
    print(made[0].namespace, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def pair(on_linux: None) -> Iterator[list[Host]]:
    with hosts(2) as made:
        yield made


def test_a_host_has_a_name_of_its_own(pair: list[Host]) -> None:
    before = os.uname().nodename
    assert [host.run(["hostname"]).strip() for host in pair] == ["host0", "host1"]
    assert os.uname().nodename == before


def test_hosts_know_each_other_by_name(pair: list[Host]) -> None:
    for host in pair:
        for other in pair:
            assert host.run(["getent", "hosts", other.name]).split()[0] == other.address


def test_a_program_that_looks_up_its_own_name_finds_the_hosts_address(pair: list[Host]) -> None:
    ask = "import socket; print(socket.gethostbyname(socket.gethostname()))"
    assert pair[1].run([sys.executable, "-c", ask]).strip() == pair[1].address


def test_every_host_has_a_loopback(pair: list[Host]) -> None:
    for host in pair:
        host.run([sys.executable, "-c", _CONNECT])


def test_no_host_has_the_congestion_control_that_estimates_a_rate(pair: list[Host]) -> None:
    path = "/proc/sys/net/ipv4/tcp_congestion_control"
    assert [host.run(["cat", path]).strip() for host in pair] == ["reno", "reno"]


def test_the_process_that_is_started_is_the_command_and_gets_the_signals(pair: list[Host]) -> None:
    process = pair[0].start(["sleep", "60"])
    try:
        assert wait_until(lambda: _name(process.pid) == "sleep")
        assert pair[0].processes() == [process.pid]
        assert pair[1].processes() == []
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
    assert pair[0].processes() == []


def test_a_command_that_fails_says_where_and_what_it_said(pair: list[Host]) -> None:
    with pytest.raises(HostError, match="exit status 3: no luck"):
        pair[0].run(["sh", "-c", "echo no luck >&2; exit 3"])


def test_no_host_is_left_and_nothing_that_ran_on_it(on_linux: None) -> None:
    with hosts(2) as made:
        process = made[1].start(["sleep", "60"])
        assert wait_until(made[1].processes)
    assert process.wait(10) == -signal.SIGKILL
    for host in made:
        assert not (NAMESPACES / host.namespace).exists()
        assert not (ETC / host.namespace).exists()


def test_what_a_killed_owner_left_is_removed_by_the_next_and_what_is_in_use_stays(
    pair: list[Host],
) -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout
        left = owner.stdout.readline().strip()
        assert left not in namespaces.remove_leftovers()
        owner.kill()
    assert namespaces.remove_leftovers() == [left]
    assert not (NAMESPACES / left).exists()
    assert all((NAMESPACES / host.namespace).exists() for host in pair)


def _name(process: int) -> str:
    with open(f"/proc/{process}/comm") as file:
        return file.read().strip()
