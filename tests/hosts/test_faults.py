"""What a session says of a network that fails while it measures; it never hangs.

A link that is cut for good, one that is cut for a while, and one that is slowed tenfold.
"""

from __future__ import annotations

import time

import pytest

from tests.driver.workers import wait_until

from .network import Network
from .sessions import PYTHON_THERE, Place

pytestmark = pytest.mark.framework("jax")

OPTIONS = ("--hosts=host0,host1", PYTHON_THERE, "--frameworks=jax", "--payloads=1M,2M,4M")
ONE = (*OPTIONS, "--launches=1", "--agents-wait=5")
# An agent that is not heard for ten seconds is gone.
MISSED_S = 10.0


def test_a_link_that_is_cut_for_good_ends_the_session_which_names_the_host(
    two: Network, place: Place
) -> None:
    session = place.begin(*ONE)
    assert wait_until(lambda: "busbw: pass 1/1" in place.text, 60)
    two.cut(two.hosts[1])
    ran = place.ran(session, 90)
    assert ran.exit_code == 1
    assert "the agent on host1 (rank 1) is gone: no sign of life for 10 s" in ran.text, ran.text
    assert "NO_VERDICT" in ran.text and "an agent did not start on host1 (rank 1)" in ran.text
    # On the other side of the cut, too.
    assert wait_until(lambda: two.runs_only("sshd"), MISSED_S + 5)


def test_a_link_that_is_cut_for_a_while_costs_the_case_alone(two: Network, place: Place) -> None:
    session = place.begin(*ONE)
    assert wait_until(lambda: "busbw: pass 1/1" in place.text, 60)
    two.cut(two.hosts[1])
    time.sleep(MISSED_S + 2)
    two.heal()
    ran = place.ran(session, 120)
    assert ran.exit_code == 1, ran.text
    assert sorted(ran.outcomes.values()) == ["FAILED", "NO_BASELINE", "NO_BASELINE"], ran.text
    assert "host1" in ran.text
    assert wait_until(lambda: two.runs_only("sshd"), MISSED_S + 5)


def test_a_link_that_is_slowed_tenfold_is_a_regression(two: Network, place: Place) -> None:
    # To lock the stack it would need a network that leads further.
    small = (*OPTIONS, "--payloads=256K,1M")
    recorded = place.ran(place.begin(*small, "--update-baselines", "--no-reference-lock"))
    assert recorded.exit_code == 0, recorded.text
    two.slow(two.hosts[1])
    ran = place.ran(place.begin(*small))
    assert ran.exit_code == 1
    assert set(ran.outcomes.values()) == {"REGRESSED"}, ran.text
    assert "2 REGRESSED: jax 1M" in ran.text, ran.text
