"""--inject, --fail-above, --memory-limit and --clock: delays, limits and times of a session."""

from __future__ import annotations

import re

import pytest

from tests.contract.plugin.test_reference_options import AGAINST
from tests.helpers.session_folder import SLOW, Folder
from tests.helpers.sweep import sweep

PAIRS = (AGAINST, "--launches=2")


def test_an_injected_delay_of_one_payload_fails_only_the_case_of_this_payload(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    ran = folder.run(*PAIRS, "--payloads=1K,1M,4M", "--inject=delay:10%@1M", exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "1M": "REGRESSED", "4M": "PASS"}
    (words,) = ran.failures
    assert "1.100 x the interleaved reference" in words
    assert {launch["injected"] for launch in ran.case()["launches"]} == {"delay:10%@1M"}
    assert {launch["injected"] for launch in ran.case("4M")["launches"]} == {""}


@pytest.mark.exhaustive
def test_a_session_with_an_injected_delay_reports_the_requested_and_the_measured_delay(
    folder: Folder,
) -> None:
    folder.script(**SLOW, injected_more=2.0)
    ran = folder.run(*PAIRS, "--payloads=1K,1M,4M", "--inject=delay:10%@1M+4M", exit_code=1)
    assert "busbw injected: delay:10%@1M+4M; the times are not real" in ran.text
    note = "injected delay:10%@1M+4M: measured +20.0 %"
    assert note in ran.case()["notes"]
    assert note in ran.text
    ratios = [launch["injected_ratio"] for launch in ran.case()["launches"]]
    assert ratios == pytest.approx([1.2] * len(ratios), rel=0.03)
    others = [*ran.case("1K")["launches"], *ran.case()["reference_launches"]]
    assert {launch["injected_ratio"] for launch in others} == {None}
    assert not any("injected" in text for text in ran.case("1K")["notes"])


def test_an_injected_delay_that_does_not_slow_its_case_down_fails_the_case(
    folder: Folder,
) -> None:
    folder.script(**SLOW, injected_more=0.0)
    ran = folder.run("--payloads=1K,1M", "--inject=delay:30%@1M", exit_code=1)
    assert ran.outcomes == {"1K": "NO_BASELINE", "1M": "FAILED"}
    (words,) = ran.failures
    assert "the delay was not applied: with delay:30%@1M a collective took " in words
    assert "repeat it on an idle machine, or with a longer delay" in words


@pytest.mark.exhaustive
def test_a_case_that_fits_in_memory_only_with_the_reference_stack_fails(folder: Folder) -> None:
    ran = folder.run(*PAIRS, "--payloads=1K,16M", "--inject=memory:96M", exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "16M": "OUT_OF_MEMORY"}
    (words,) = ran.failures
    assert "needs 128.0 MiB" in words
    assert "; the reference fits" in words


@pytest.mark.parametrize("options", sweep([["--fail-above=25%"], ["-o", "busbw_fail_above=25%"]]))
def test_a_case_has_regressed_if_its_ratio_exceeds_the_option_or_the_setting_fail_above(
    folder: Folder, options: list[str]
) -> None:
    folder.slower(1.3)
    assert folder.run(exit_code=0).outcomes == {"1M": "PASS"}
    ran = folder.run(*options, exit_code=1)
    assert ran.outcomes == {"1M": "REGRESSED"}
    assert "(limit 1.250 x)" in ran.case()["text"]


def test_a_case_passes_if_its_ratio_exceeds_only_the_default_limit_and_not_fail_above(
    folder: Folder,
) -> None:
    folder.slower(1.9)
    assert folder.run(exit_code=1).outcomes == {"1M": "REGRESSED"}
    assert folder.run("--fail-above=300%", exit_code=0).outcomes == {"1M": "PASS"}


# The fake back end says that a case needs two buffers a rank: 128 MiB for 16M on four ranks.
NEEDED_BYTES = 128 * 2**20
LIMIT_BYTES = 96 * 2**20
SIZES = "--payloads=1K,16M"
LIMIT = "--memory-limit=96M"


def test_a_case_that_exceeds_the_memory_limit_reports_the_needed_and_the_available_bytes(
    folder: Folder,
) -> None:
    ran = folder.run(SIZES, LIMIT, exit_code=0)
    assert ran.outcomes == {"1K": "NO_BASELINE", "16M": "OUT_OF_MEMORY"}
    failure = ran.case("16M")["failure"]
    assert failure["detected"] == "predicted"
    assert failure["needed_bytes"] == NEEDED_BYTES
    assert 0 < failure["available_bytes"] < LIMIT_BYTES
    assert "needs 128.0 MiB" in ran.text
    assert "MiB available (predicted before touching memory)" in ran.text


@pytest.mark.exhaustive
def test_a_stored_out_of_memory_failure_is_expected_only_under_the_same_memory_limit(
    folder: Folder,
) -> None:
    folder.with_baselines(SIZES, LIMIT)
    ran = folder.run(SIZES, LIMIT, "--require-baselines", exit_code=0)
    assert ran.outcomes == {"1K": "PASS", "16M": "OUT_OF_MEMORY"}
    assert ran.case("16M")["expected"] is True
    assert "OUT_OF_MEMORY +\n" in ran.text
    assert "(expected: so it was on 20" in ran.text
    assert "failed" not in ran.last_line
    for other in ((), ("--memory-limit=100M",)):
        ran = folder.run(SIZES, *other, "--require-baselines", exit_code=1)
        assert ran.outcomes["1K"] == "PASS"
        assert ran.outcomes["16M"] == ("OUT_OF_MEMORY" if other else "NO_BASELINE")
        assert not ran.case("16M")["expected"]


@pytest.mark.exhaustive
def test_a_slow_case_regresses_although_its_baseline_also_has_an_out_of_memory_failure(
    folder: Folder,
) -> None:
    """Fail a slower case, and a case that does not fit in the whole memory of the machine."""
    folder.script(**SLOW)
    folder.with_baselines(SIZES)
    folder.run(SIZES, LIMIT, "--update-baselines", exit_code=1)
    assert folder.run(SIZES, exit_code=0).outcomes == {"1K": "PASS", "16M": "PASS"}
    assert folder.run(SIZES, LIMIT, exit_code=0).case("16M")["expected"] is True
    folder.script(**SLOW, cases=[{"slower": 50}])
    ran = folder.run(SIZES, exit_code=1)
    assert ran.outcomes == {"1K": "REGRESSED", "16M": "REGRESSED"}
    folder.script(**SLOW, cases=[{"payload_bytes": 16 * 2**20, "then": "out_of_memory"}])
    ran = folder.run(SIZES, exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "16M": "OUT_OF_MEMORY"}


@pytest.mark.exhaustive
def test_no_case_fits_under_a_memory_limit_below_the_memory_of_an_idle_worker(
    folder: Folder,
) -> None:
    assert folder.run("--payloads=1K", "--memory-limit=1M", exit_code=1).outcomes == {
        "1K": "OUT_OF_MEMORY"
    }


@pytest.mark.exhaustive
def test_a_session_passes_if_all_cases_are_out_of_memory_like_their_baselines(
    folder: Folder,
) -> None:
    folder.with_baselines(SIZES, LIMIT)
    ran = folder.run(SIZES, LIMIT, "-k", "16M", exit_code=0)
    assert "PASS: 1 case out of memory, as expected" in ran.text


@pytest.mark.exhaustive
def test_a_case_that_was_out_of_memory_has_improved_if_it_fits_under_the_memory_limit_again(
    folder: Folder,
) -> None:
    sizes = "--payloads=1K,1M"
    folder.script(cases=[{"payload_bytes": 2**20, "then": "out_of_memory"}])
    folder.with_baselines(sizes, LIMIT)
    folder.script()
    ran = folder.run(sizes, LIMIT, "--update-baselines", exit_code=0)
    assert ran.outcomes == {"1K": "PASS", "1M": "IMPROVED"}
    assert folder.run(sizes, LIMIT, exit_code=0).outcomes == {"1K": "PASS", "1M": "PASS"}


@pytest.mark.exhaustive
def test_a_case_that_is_out_of_memory_fails_if_its_baseline_has_a_time(folder: Folder) -> None:
    folder.with_baselines(SIZES)
    ran = folder.run(SIZES, LIMIT, exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "16M": "OUT_OF_MEMORY"}
    assert "1 failed, 1 passed" in ran.last_line
    (words,) = ran.failures
    assert "needs 128.0 MiB" in words
    assert "; the baseline of 20" in words


@pytest.mark.exhaustive
def test_larger_payloads_are_measured_after_a_payload_that_was_out_of_memory(
    folder: Folder,
) -> None:
    folder.script(cases=[{"payload_bytes": 2048, "then": "out_of_memory"}])
    ran = folder.run("--payloads=1K:4K", exit_code=0)
    assert ran.outcomes == {"1K": "NO_BASELINE", "2K": "OUT_OF_MEMORY", "4K": "NO_BASELINE"}
    assert ran.case("2K")["failure"]["detected"] == "raised"


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
    ("clock", "time_s"),
    sweep([("host", 1e-3), ("dispatch", 1.5e-3), ("device", 0.5e-3)], in_gate=2),
)
def test_times_are_read_from_the_clock_that_the_option_clock_names(
    folder: Folder, clock: str, time_s: float
) -> None:
    folder.script(**SCRIPT)
    case = folder.run(f"--clock={clock}", exit_code=0).case()
    assert case["id"] == f"fake-{clock}-default-float32-1M"
    assert case["case"]["protocol"] == f"{clock}/fake"
    assert case["now"]["median_s"] == pytest.approx(time_s, rel=0.05)
    (launch,) = case["launches"]
    assert launch["clock"] == clock
    assert launch["clocks_s"][clock] == case["now"]["median_s"]


def test_a_session_without_the_option_clock_uses_the_first_clock_of_the_device(
    folder: Folder,
) -> None:
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


def test_events_that_the_profiler_lost_fail_the_case_without_a_fallback_to_another_clock(
    folder: Folder,
) -> None:
    folder.script(**SCRIPT, events_lost=1)
    ran = folder.run("--clock=device", exit_code=1)
    assert ran.outcomes == {"1M": "FAILED"}
    failure = ran.case()["failure"]
    assert failure["kind"] == "UNAVAILABLE"
    lacks = r"device 3: expected \d+ of all-reduce\.1, got \d+ of all-reduce\.1; try "
    assert re.search(lacks, failure["message"])
    assert ran.case()["now"] is None
    assert folder.run("--clock=host", exit_code=0).outcomes == {"1M": "NO_BASELINE"}
