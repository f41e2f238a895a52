"""What a session measures between hosts is what the link and gloo's ring allow: see `link`.

Latency and bandwidth of all payloads together, within a quarter; each payload is printed. These
times are the relay's, not the machine's: what takes 5 ms here does so everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.network.link import CABLE, Link, all_reduce_s, curve, fit
from tests.contract.network.network import Network, network
from tests.contract.network.sessions import PYTHON_THERE, Place, Ran
from tests.contract.network.sshd import sshd

pytestmark = pytest.mark.framework("jax")

ONCE = ("--frameworks=jax", "--launches=1", "--payloads=1K:8M")
WITHIN = 0.25


@pytest.fixture(params=[2, 4])
def hosts_in_network(request: pytest.FixtureRequest, installed: None) -> Iterator[Network]:
    with network(request.param) as made:
        yield made


def run_over_all_hosts(hosts_in_network: Network, folder: Path, *options: str) -> Ran:
    """Run a session over all hosts, which must succeed."""
    keys, sessions = folder / "keys", folder / "sessions"
    keys.mkdir()
    sessions.mkdir()
    names = ",".join(host.name for host in hosts_in_network.hosts)
    with sshd(hosts_in_network.hosts, keys):
        place = Place(host=hosts_in_network.hosts[0], folder=sessions)
        ran = place.ran(place.begin(f"--hosts={names}", PYTHON_THERE, *ONCE, *options))
    assert ran.exit_code == 0, ran.text
    return ran


def agreement_with_formula(
    ran: Ran, ranks: int, groups: int = 1, cable: Link = CABLE
) -> tuple[bool, bool]:
    """Print each payload; return whether latency and bandwidth agree with the formula."""
    assert ran.results is not None
    medians_s = {
        case["case"]["payload_bytes"]: case["now"]["median_s"] for case in ran.results["cases"]
    }
    for size, seconds in medians_s.items():
        said_s = all_reduce_s(cable, ranks, size, groups)
        print(f"{size:>8} {1e3 * seconds:8.2f} ms, formula {1e3 * said_s:8.2f} ms")
    ours, theirs = fit(medians_s), curve(cable, ranks, medians_s, groups)
    print(f"{ranks} ranks, {groups} groups: {ours}\n      formula: {theirs}")
    return (
        ours.latency_s == pytest.approx(theirs.latency_s, rel=WITHIN),
        ours.bandwidth_bytes_per_s == pytest.approx(theirs.bandwidth_bytes_per_s, rel=WITHIN),
    )


@pytest.mark.parametrize("ranks_of_a_host", [1, 2])
def test_latency_and_bandwidth_of_hosts_agree_with_the_formula_of_their_link(
    hosts_in_network: Network, tmp_path: Path, ranks_of_a_host: int
) -> None:
    count = len(hosts_in_network.hosts)
    mesh = (f"--mesh=hosts:{count},devices:{ranks_of_a_host}", "--axes=hosts")
    ran = run_over_all_hosts(hosts_in_network, tmp_path, *mesh[: 2 * (ranks_of_a_host - 1)])
    assert agreement_with_formula(ran, count, groups=ranks_of_a_host) == (True, True)


def test_latency_and_bandwidth_over_a_slower_link_agree_only_with_the_formula_of_that_link(
    installed: None, tmp_path: Path
) -> None:
    with network(2, delay_s=0.01, rate_bits_per_s=100_000_000) as slower:
        ran = run_over_all_hosts(slower, tmp_path)
    cable = Link(delay_s=0.01, bytes_per_s=12.5e6, burst_bytes=CABLE.burst_bytes)
    assert agreement_with_formula(ran, 2, cable=cable) == (True, True)
    assert agreement_with_formula(ran, 2) == (False, False)
