"""Sessions during faults of a network or a host: they name the host and never hang.

A link that is cut or a host that is frozen, for good and for a while; a link that is slowed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

from tests.contract.network.network import Network
from tests.contract.network.sessions import PYTHON_THERE, Place
from tests.helpers.workers import wait_until

pytestmark = pytest.mark.framework("jax")

OPTIONS = ("--hosts=host0,host1", PYTHON_THERE, "--frameworks=jax", "--payloads=1M,2M,4M")
ONE = (*OPTIONS, "--launches=1", "--case-timeout=20")
FAULTS = ("cut", "frozen")
# ssh gives up a host that does not answer for 15 s; a host its session after 30 s.
MISSED_S = 30.0
SHORT_S = 12.0


def fail(two: Network, fault: str) -> None:
    """Cut the link of host1, or stop all its processes, including sshd."""
    if fault == "cut":
        two.cut(two.hosts[1])
    else:
        signal_all(two, signal.SIGSTOP)


def heal(two: Network, fault: str) -> None:
    if fault == "cut":
        two.heal()
    else:
        signal_all(two, signal.SIGCONT)


def signal_all(two: Network, number: signal.Signals) -> None:
    for process in two.hosts[1].processes():
        # A process that continues ends other processes of its host.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_host_that_stays_unreachable_ends_the_session_with_an_error_that_names_the_host(
    two: Network, place: Place, fault: str
) -> None:
    session = place.begin(*ONE)
    assert wait_until(lambda: "busbw: round 1/1" in place.text, 60)
    fail(two, fault)
    ran = place.ran(session, 180)
    assert ran.exit_code == 1
    assert "host1 is gone: " in ran.text, ran.text
    if fault == "frozen":
        heal(two, fault)
    # On the other side of the cut, too.
    assert wait_until(lambda: two.runs_only("sshd"), MISSED_S + 5)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_host_that_is_unreachable_for_12_seconds_fails_at_most_the_current_case(
    two: Network, place: Place, fault: str
) -> None:
    session = place.begin(*ONE)
    assert wait_until(lambda: "busbw: round 1/1" in place.text, 60)
    fail(two, fault)
    time.sleep(SHORT_S)
    heal(two, fault)
    ran = place.ran(session, 120)
    outcomes = sorted(ran.outcomes.values())
    assert outcomes in (["NO_BASELINE"] * 3, ["FAILED", *["NO_BASELINE"] * 2]), ran.text
    assert ran.exit_code == int("FAILED" in outcomes)
    assert wait_until(lambda: two.runs_only("sshd"), MISSED_S + 5)


def test_a_session_regresses_if_the_link_between_hosts_becomes_ten_times_slower(
    two: Network, place: Place
) -> None:
    # To lock the stack it would need a network that leads further.
    small = (*OPTIONS, "--payloads=256K,1M")
    recorded = place.ran(place.begin(*small, "--update-baselines"))
    assert recorded.exit_code == 0, recorded.text
    two.slow(two.hosts[1])
    ran = place.ran(place.begin(*small))
    assert ran.exit_code == 1
    assert set(ran.outcomes.values()) == {"REGRESSED"}, ran.text
    assert "2 REGRESSED: jax 1M" in ran.text, ran.text
