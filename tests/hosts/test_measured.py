"""What a session measures between hosts is what the link and gloo's ring allow: see `link`.

Latency and bandwidth of all payloads together, within a quarter; each payload is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.judge import curve as judged
from busbw.model.words import payload_text

from .link import CABLE, all_reduce_s, curve
from .network import Network, network
from .sessions import PYTHON_THERE, Place, Ran
from .sshd import sshd

pytestmark = pytest.mark.framework("jax")

PAYLOADS = "--payloads=1K:8M"
WITHIN = 0.25


@pytest.fixture(params=[2, 4])
def several(request: pytest.FixtureRequest, installed: None) -> Iterator[Network]:
    """Two hosts, and four."""
    with network(request.param) as made:
        yield made


def measured(several: Network, folder: Path, *options: str) -> Ran:
    """A session over all hosts, which is fine."""
    keys, own = folder / "keys", folder / "sessions"
    keys.mkdir()
    own.mkdir()
    names = ",".join(host.name for host in several.hosts)
    with sshd(several.hosts, keys):
        place = Place(host=several.hosts[0], folder=own)
        given = (f"--hosts={names}", PYTHON_THERE, "--frameworks=jax", "--launches=1", PAYLOADS)
        ran = place.ran(place.begin(*given, *options))
    assert ran.exit_code == 0, ran.text
    return ran


def check(ran: Ran, ranks: int, groups: int) -> None:
    """Print each payload, and hold the curve of all against the formula's."""
    assert ran.results is not None
    found = {
        one["case"]["payload_bytes"]: one["measured"]["median_s"] for one in ran.results["cases"]
    }
    for size, seconds in found.items():
        said_s = all_reduce_s(CABLE, ranks, size, groups)
        print(f"{payload_text(size):>6} {1e3 * seconds:8.2f} ms, formula {1e3 * said_s:8.2f} ms")
    ours, theirs = judged.fit(found), curve(CABLE, ranks, found, groups)
    assert ours is not None
    print(f"{ranks} ranks, {groups} groups: {ours}\n      formula: {theirs}")
    assert ours.latency_s == pytest.approx(theirs.latency_s, rel=WITHIN)
    assert ours.bandwidth_bytes_per_s == pytest.approx(theirs.bandwidth_bytes_per_s, rel=WITHIN)


def test_one_rank_per_host(several: Network, tmp_path: Path) -> None:
    check(measured(several, tmp_path), len(several.hosts), 1)


def test_two_ranks_per_host_along_the_hosts(several: Network, tmp_path: Path) -> None:
    count = len(several.hosts)
    mesh = (f"--mesh=hosts:{count},devices:2", "--axes=hosts")
    check(measured(several, tmp_path, *mesh), count, 2)
