"""Hosts that are connected: a cable each, with a rate, to a relay with a delay; and its orders.

The rate is a token bucket (tc-tbf) on the host's own device, so that the sender waits, as for a
network card. The bucket holds one packet of the largest size: it cannot hold less, and as it is, a
host that was idle sends that one at once (`link` counts with it).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.network.namespaces import Host, HostError, hosts, run

DEVICE = "eth0"
MTU_BYTES = 60000
# tc counts the bucket as time, in whole ticks of 64 ns: a little more, that a packet fits in.
BURST_BYTES = MTU_BYTES + 100
DELAY_S = 0.005
RATE_BITS_PER_S = 200_000_000
# What may wait for tokens: more than all windows together, so that the queue loses nothing.
_QUEUE_BYTES = 64 * 2**20
_ROOT = Path(__file__).parents[3]
_END_S = 20.0


@dataclass(kw_only=True, slots=True)
class Network:
    """Hosts and the relay between them; the first host is where a session runs."""

    hosts: Sequence[Host]
    relay: subprocess.Popen[str]
    rate_bits_per_s: int

    def cut(self, *hosts: Host) -> None:
        """Drop all that one host sends and gets, or all between two."""
        _ask(self.relay, {"do": "cut", "hosts": [host.name for host in hosts]})

    def heal(self) -> None:
        _ask(self.relay, {"do": "heal"})

    def slow(self, host: Host, factor: float = 10.0) -> None:
        """Have what this host sends take `factor` times as long; 1 is its own rate again."""
        set_rate(host, round(self.rate_bits_per_s / factor))

    def narrow(self, sources: Sequence[Host], targets: Sequence[Host], bits_per_s: float) -> None:
        """Have all that goes from these hosts to those share one line of that rate."""
        names = {"from": [host.name for host in sources], "to": [host.name for host in targets]}
        _ask(self.relay, {"do": "narrow", **names, "bits_per_s": bits_per_s})

    def runs_only(self, *programs: str) -> bool:
        return self.programs() <= {*programs}

    def programs(self) -> set[str]:
        names = set()
        for path in (
            f"/proc/{process}/comm" for host in self.hosts for process in host.processes()
        ):
            with contextlib.suppress(OSError):
                names.add(Path(path).read_text().strip())
        return names


@contextlib.contextmanager
def network(
    count: int = 2, *, delay_s: float = DELAY_S, rate_bits_per_s: int = RATE_BITS_PER_S
) -> Iterator[Network]:
    """So many connected hosts; neither hosts nor relay are left."""
    with hosts(count) as made, _relay() as relay:
        _ask(relay, {"delay_s": delay_s, "hosts": [_as_asked(host) for host in made]})
        for host in made:
            _plug(host)
            set_rate(host, rate_bits_per_s)
        yield Network(hosts=made, relay=relay, rate_bits_per_s=rate_bits_per_s)


@contextlib.contextmanager
def _relay() -> Iterator[subprocess.Popen[str]]:
    """Start the relay's process. It has a session of its own: Ctrl-C is for its owner."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.contract.network.relay"],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            assert process.stdin
            process.stdin.close()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _ask(relay: subprocess.Popen[str], order: dict[str, Any]) -> None:
    assert relay.stdin and relay.stdout
    relay.stdin.write(json.dumps(order) + "\n")
    relay.stdin.flush()
    if not relay.stdout.readline():
        raise HostError(f"the relay does not answer to {order}")


def _as_asked(host: Host) -> dict[str, str]:
    return {
        "name": host.name,
        "address": socket.inet_aton(host.address).hex(),
        "device": _first_name(host),
        "namespace": host.namespace,
    }


def _first_name(host: Host) -> str:
    """Return the device's name until it is in its namespace; at most 15 letters."""
    return f"bb{os.getpid()}h{host.name.removeprefix('host')}"


def _plug(host: Host) -> None:
    """Move the device to its host, without IPv6, which would send packets of its own."""
    run(["ip", "link", "set", _first_name(host), "netns", host.namespace, "name", DEVICE])
    host.run(["sh", "-c", f"echo 1 > /proc/sys/net/ipv6/conf/{DEVICE}/disable_ipv6"])
    on_host = ["ip", "-n", host.namespace]
    run([*on_host, "address", "add", f"{host.address}/24", "dev", DEVICE])
    run([*on_host, "link", "set", DEVICE, "mtu", str(MTU_BYTES), "up"])


def set_rate(host: Host, bits_per_s: int) -> None:
    """Set what this host can send in a second, from now on."""
    bucket = ["rate", f"{bits_per_s}bit", "burst", str(BURST_BYTES), "limit", str(_QUEUE_BYTES)]
    run(["tc", "-n", host.namespace, "qdisc", "replace", "dev", DEVICE, "root", "tbf", *bucket])
