"""`busbw find-slow` over hosts with real sshd: a slow link and a slow host are named."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.network.network import Network, network
from tests.contract.network.sessions import ROOT, Place
from tests.contract.network.sshd import sshd

pytestmark = pytest.mark.framework("jax")

TIMEOUT_S = 900.0
COMMAND = (
    *(sys.executable, "-m", "busbw", "find-slow", "--hosts=host0,host1,host2,host3"),
    *(f"--host-python={sys.executable}", "--framework=jax", "--device=cpu", "--payloads=1M"),
)


@pytest.fixture
def four(installed: None, tmp_path: Path) -> Iterator[Network]:
    with network(4) as made, sshd(made.hosts, tmp_path):
        yield made


def slow_host(four: Network) -> None:
    four.slow(four.hosts[2], 2.0)


def slow_link(four: Network) -> None:
    one, other = [four.hosts[1]], [four.hosts[2]]
    four.narrow(one, other, four.rate_bits_per_s / 3)
    four.narrow(other, one, four.rate_bits_per_s / 3)


@pytest.mark.parametrize(
    ("make_slow", "named"), [(slow_host, ["host2"]), (slow_link, ["host1", "host2"])]
)
def test_it_is_named_and_nothing_is_left(
    four: Network, tmp_path: Path, make_slow: Callable[[Network], None], named: list[str]
) -> None:
    make_slow(four)
    place = Place(host=four.hosts[0], folder=tmp_path)
    (tmp_path / "temporary").mkdir()
    log = tmp_path / "log"
    with log.open("wb") as output:
        search = place.host.start(
            [*COMMAND, f"--results={tmp_path}/answer.json"],
            cwd=ROOT,
            env=place.environment({}),
            stdout=output,
            stderr=output,
        )
        assert search.wait(TIMEOUT_S) == 1, log.read_text()
    answer: dict[str, Any] = json.loads((tmp_path / "answer.json").read_text())
    assert [accused["hosts"] for accused in answer["accused"]] == [named], log.read_text()
    assert four.runs_only("sshd")
    assert place.left() == []
