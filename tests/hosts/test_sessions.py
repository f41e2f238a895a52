"""A session over two hosts measures what the link allows: latency and bandwidth of the formula.

These times are the relay's, not the machine's: what takes 5 ms here does so everywhere.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw.judge import curve

from . import link
from .link import CABLE, Link
from .network import Network, network

pytestmark = pytest.mark.framework("jax")

PAYLOADS = "4K,64K,256K,1M,4M"
WITHIN = 0.25
_ROOT = Path(__file__).parents[2]
_WAIT_S = 300.0


def session(on: Network, *options: str) -> dict[str, Any]:
    """The results of a session on the first host, whose agents are on all of them.

    The folder of the results is the test's: the session's, too, for temporary files.
    """
    first = on.hosts[0]
    values = {**os.environ, "BUSBW_SECRET": secrets.token_hex(32)}
    results = Path(values["TMPDIR"]) / f"{first.namespace}.json"
    address = f"{first.address}:4000"
    shape = [f"--processes={len(on.hosts)}", f"--agents={len(on.hosts)}", f"--listen={address}"]
    once = ["--launches=1", "--time-budget=1", f"--results={results}", "-p", "no:cacheprovider"]
    measured = ["--frameworks=jax", "--device=cpu", f"--payloads={PAYLOADS}", *options]
    pytest_of = [sys.executable, "-m", "pytest", "perf/", "-q", *shape, *once, *measured]
    asked = first.start(
        pytest_of, cwd=_ROOT, env=values, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    agents = [
        host.start(
            [sys.executable, "-m", "busbw", "agent", f"--session={address}", f"--rank={rank}"],
            cwd=_ROOT,
            env=values,
        )
        for rank, host in enumerate(on.hosts)
    ]
    said, _ = asked.communicate(timeout=_WAIT_S)
    assert asked.returncode == 0, said.decode()
    assert [agent.wait(_WAIT_S) for agent in agents] == [0] * len(agents)
    found: dict[str, Any] = json.loads(results.read_text())
    return found


def times(results: dict[str, Any]) -> dict[int, float]:
    """The seconds of each payload."""
    return {
        case["case"]["payload_bytes"]: case["measured"]["median_s"] for case in results["cases"]
    }


def agrees(measured: dict[int, float], cable: Link, groups: int = 1) -> tuple[bool, bool]:
    """Whether latency and bandwidth of two hosts are those of the formula, within a quarter."""
    found, expected = curve.fit(measured), link.curve(cable, 2, measured, groups)
    assert found
    ratios = (
        found.latency_s / expected.latency_s,
        found.bandwidth_bytes_per_s / expected.bandwidth_bytes_per_s,
    )
    latency, bandwidth = (abs(ratio - 1) < WITHIN for ratio in ratios)
    return latency, bandwidth


def test_latency_and_bandwidth_between_two_hosts_are_those_of_the_link(two: Network) -> None:
    assert agrees(times(session(two)), CABLE) == (True, True)


def test_two_ranks_of_each_process_share_the_link_along_the_hosts(two: Network) -> None:
    measured = times(session(two, "--mesh=hosts:2,devices:2", "--axes=hosts"))
    assert agrees(measured, CABLE, groups=2) == (True, True)


def test_another_link_has_its_own_latency_and_bandwidth(on_linux: None) -> None:
    with network(2, delay_s=0.01, rate_bits_per_s=100_000_000) as slower:
        measured = times(session(slower))
    cable = Link(delay_s=0.01, bytes_per_s=12.5e6, burst_bytes=CABLE.burst_bytes)
    assert agrees(measured, cable) == (True, True)
    assert agrees(measured, CABLE) == (False, False)
