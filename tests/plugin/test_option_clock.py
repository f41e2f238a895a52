"""--clock: where times are read; one that is not there, or has lost something, is no time."""

from __future__ import annotations

import pytest

from .folder import Folder

ALL = ["host", "dispatch", "device"]
# A call costs half a millisecond and a collective one; by the device's own clock it is half that.
SCRIPT = {
    "latency_s": 1e-3,
    "gb_per_s": 1e6,
    "dispatch_s": 5e-4,
    "device_slower": 0.5,
    "clocks": ALL,
}


@pytest.mark.parametrize(
    ("clock", "time_s"), [("host", 1e-3), ("dispatch", 1.5e-3), ("device", 0.5e-3)]
)
def test_times_are_read_from_the_clock_that_was_named(
    folder: Folder, clock: str, time_s: float
) -> None:
    folder.script(**SCRIPT)
    case = folder.run(f"--clock={clock}", exit_code=0).case()
    assert case["id"] == f"fake-{clock}-default-float32-1M"
    assert case["case"]["protocol"] == f"{clock}/fake"
    assert case["measured"]["median_s"] == pytest.approx(time_s, rel=0.05)
    (launch,) = case["launches"]
    assert launch["clock"] == clock
    assert launch["clocks_s"][clock] == case["measured"]["median_s"]


def test_by_the_device_s_clock_every_rank_has_a_time_and_the_host_s_stands_beside_it(
    folder: Folder,
) -> None:
    folder.script(**SCRIPT)
    (launch,) = folder.run("--clock=device", exit_code=0).case()["launches"]
    assert set(launch["clocks_s"]) == {"host", "device"}
    assert launch["rank_times_s"] == pytest.approx([0.5e-3] * 4, rel=0.05)
    assert launch["dispatch_s"] == pytest.approx(5e-4, rel=0.2)


def test_left_alone_the_device_s_first_clock_is_read(folder: Folder) -> None:
    folder.script(**{**SCRIPT, "clocks": ["device", "host"]})
    case = folder.run(exit_code=0).case()
    assert (case["id"], case["case"]["protocol"]) == ("fake-default-float32-1M", "device/fake")


def test_times_of_two_clocks_are_never_compared(folder: Folder) -> None:
    folder.script(**SCRIPT)
    folder.with_baselines("--clock=host")
    assert folder.run("--clock=host", exit_code=0).outcomes == {"1M": "PASS"}
    ran = folder.run("--clock=dispatch", exit_code=0)
    assert ran.outcomes == {"1M": "INCOMPARABLE"}
    assert "measured with protocol dispatch/fake" in ran.text


def test_events_that_the_profiler_lost_fail_the_case_and_no_other_clock_stands_in(
    folder: Folder,
) -> None:
    folder.script(**SCRIPT, events_lost=1)
    ran = folder.run("--clock=device", exit_code=1)
    assert ran.outcomes == {"1M": "FAILED"}
    failure = ran.case()["failure"]
    assert failure["kind"] == "UNAVAILABLE"
    assert "by rank, expected " in failure["message"]
    assert failure["message"].endswith("on each of 4; try --clock=host")
    assert ran.case()["measured"] is None
    assert folder.run("--clock=host", exit_code=0).outcomes == {"1M": "NO_BASELINE"}
