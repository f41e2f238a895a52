"""`busbw find-slow` over four hosts with real sshd: a slow host and a slow link are named."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.network.network import Network, network
from tests.contract.network.sessions import PYTHON_THERE, ROOT, Place
from tests.contract.network.sshd import sshd

pytestmark = pytest.mark.framework("jax")

FIND_SLOW = (sys.executable, "-m", "busbw", "find-slow", PYTHON_THERE)
NAMES = ("host0", "host1", "host2", "host3")
# A payload whose transfer takes much longer than the delay of a link.
OPTIONS = ("--framework=jax", "--device=cpu", "--payloads=1M")
LONGEST_S = 1500.0


@pytest.fixture
def four_hosts(installed: None, tmp_path: Path) -> Iterator[Network]:
    """Connect four hosts that ssh reaches from the first."""
    keys = tmp_path / "keys"
    keys.mkdir()
    with network(4) as made, sshd(made.hosts, keys):
        yield made


def _slow(four_hosts: Network, folder: Path) -> set[tuple[str, ...]]:
    """Run the search on the first host; return the slow hosts and links of its result.

    Its results are in the file `answer.json`.
    """
    answer, log = folder / "answer.json", folder / "find-slow.log"
    place = Place(host=four_hosts.hosts[0], folder=folder)
    command = [*FIND_SLOW, f"--hosts={','.join(NAMES)}", *OPTIONS, f"--results={answer}"]
    (folder / "temporary").mkdir()
    with log.open("wb") as output:
        search = place.host.start(
            command, cwd=ROOT, env=place.environment({}), stdout=output, stderr=output
        )
    assert search.wait(LONGEST_S) == 1, log.read_text()
    return {tuple(slow["hosts"]) for slow in json.loads(answer.read_text())["slow"]}


@pytest.mark.parametrize("host", [1, 2, 3])
def test_find_slow_names_only_the_host_whose_link_has_half_the_rate(
    four_hosts: Network, tmp_path: Path, host: int
) -> None:
    four_hosts.slow(four_hosts.hosts[host], 2.0)
    assert _slow(four_hosts, tmp_path) == {(NAMES[host],)}


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 3), (2, 3)])
def test_find_slow_names_only_the_link_with_a_third_of_the_rate(
    four_hosts: Network, tmp_path: Path, first: int, second: int
) -> None:
    ends = [four_hosts.hosts[first]], [four_hosts.hosts[second]]
    for sources, targets in (ends, ends[::-1]):
        four_hosts.narrow(sources, targets, four_hosts.rate_bits_per_s / 3)
    assert _slow(four_hosts, tmp_path) == {(NAMES[first], NAMES[second])}


def test_find_slow_says_in_which_direction_a_link_is_slow(
    four_hosts: Network, tmp_path: Path
) -> None:
    sources, targets = [four_hosts.hosts[3]], [four_hosts.hosts[1]]
    four_hosts.narrow(sources, targets, four_hosts.rate_bits_per_s / 4)
    assert _slow(four_hosts, tmp_path) == {(NAMES[1], NAMES[3])}
    (times_s,) = json.loads((tmp_path / "answer.json").read_text())["directions"].values()
    assert times_s["host3 to host1"] > 2 * times_s["host1 to host3"]
