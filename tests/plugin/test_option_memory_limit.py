"""--memory-limit: as if the machine had only so much; what does not fit is predicted."""

from __future__ import annotations

import math
import re

import pytest

from .folder import SLOW, Folder

# The fake back end says that a case needs two buffers a rank: 128 MiB for 16M on four ranks.
NEEDED_BYTES = 128 * 2**20
LIMIT_BYTES = 96 * 2**20
SIZES = "--payloads=1K,16M"
LIMIT = "--memory-limit=96M"


def test_what_does_not_fit_is_predicted_with_needed_and_available_bytes(folder: Folder) -> None:
    ran = folder.run(SIZES, LIMIT, exit_code=0)
    assert ran.outcomes == {"1K": "NO_BASELINE", "16M": "OUT_OF_MEMORY"}
    failure = ran.case("16M")["failure"]
    assert failure["found"] == "predicted"
    assert failure["needed_bytes"] == NEEDED_BYTES
    assert 0 < failure["available_bytes"] < LIMIT_BYTES
    assert "needs 128.0 MiB" in ran.text
    assert "MiB available (predicted before touching memory)" in ran.text


@pytest.mark.exhaustive
def test_saved_it_is_expected_under_the_same_limit_and_says_nothing_without_it(
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
def test_saved_beside_a_time_it_hides_nothing_later(folder: Folder) -> None:
    """Neither that it got slower, nor that it does not fit in the machine's own memory."""
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
def test_where_nothing_fits_under_the_limit_nothing_is_saved(folder: Folder) -> None:
    ran = folder.run("--payloads=16M", LIMIT, "--update-baselines", exit_code=1)
    assert "no baseline was written: NO_VERDICT: no case gave a time" in ran.text
    assert not folder.baseline_files


def test_a_limit_that_a_worker_exceeds_by_itself_is_a_usage_error_with_what_it_takes(
    folder: Folder,
) -> None:
    ran = folder.run("--memory-limit=1M", exit_code=4)
    said = re.search(
        r"--memory-limit: 1M: a worker of fake takes ([\d.]+) MiB before it measures anything; "
        "accepted is more than that$",
        ran.sentence,
    )
    assert said is not None, ran.sentence
    assert ran.results is None
    limit = f"--memory-limit={math.ceil(float(said[1])) + 5}M"
    assert folder.run("--payloads=1K", limit, exit_code=0).outcomes == {"1K": "NO_BASELINE"}


def test_the_memory_of_a_device_is_not_the_host_s(folder: Folder) -> None:
    folder.script(device="tpu", device_kind="TPU v2", ranks=8)
    assert "a worker of fake takes" not in folder.ended("--memory-limit=1M")[1]


def test_a_session_of_cases_that_are_all_expected_to_run_out_of_memory_is_fine(
    folder: Folder,
) -> None:
    folder.with_baselines(SIZES, LIMIT)
    ran = folder.run(SIZES, LIMIT, "-k", "16M", exit_code=0)
    assert "FINE: 1 case out of memory, as expected" in ran.text


@pytest.mark.exhaustive
def test_what_fits_under_the_limit_again_is_out_of_memory_no_more(folder: Folder) -> None:
    sizes = "--payloads=1K,1M"
    folder.script(cases=[{"payload_bytes": 2**20, "then": "out_of_memory"}])
    folder.with_baselines(sizes, LIMIT)
    folder.script()
    ran = folder.run(sizes, LIMIT, "--update-baselines", exit_code=0)
    assert ran.outcomes == {"1K": "PASS", "1M": "IMPROVED"}
    assert folder.run(sizes, LIMIT, exit_code=0).outcomes == {"1K": "PASS", "1M": "PASS"}


@pytest.mark.exhaustive
def test_the_machines_own_out_of_memory_is_not_what_a_limit_makes(folder: Folder) -> None:
    folder.script(cases=[{"payload_bytes": 16 * 2**20, "then": "out_of_memory"}])
    folder.with_baselines(SIZES)
    ran = folder.run(SIZES, LIMIT, "--require-baselines", exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "16M": "OUT_OF_MEMORY"}
    assert ran.case("16M")["expected"] is False


@pytest.mark.exhaustive
def test_where_the_baseline_has_a_time_it_fails_and_both_are_said(folder: Folder) -> None:
    folder.with_baselines(SIZES)
    ran = folder.run(SIZES, LIMIT, exit_code=1)
    assert ran.outcomes == {"1K": "PASS", "16M": "OUT_OF_MEMORY"}
    assert "2 failed, 1 passed" in ran.last_line
    (words,) = ran.failures
    assert "needs 128.0 MiB" in words
    assert "; the baseline of 20" in words


def test_larger_payloads_are_still_tried_after_one_that_a_framework_refused(
    folder: Folder,
) -> None:
    folder.script(cases=[{"payload_bytes": 2048, "then": "out_of_memory"}])
    ran = folder.run("--payloads=1K:4K", exit_code=0)
    assert ran.outcomes == {"1K": "NO_BASELINE", "2K": "OUT_OF_MEMORY", "4K": "NO_BASELINE"}
    assert ran.case("2K")["failure"]["found"] == "raised"


@pytest.mark.parametrize("text", ["much", "0", "1K:1G", "-1G"])
def test_nonsense_is_a_usage_error(folder: Folder, text: str) -> None:
    ran = folder.run(f"--memory-limit={text}", exit_code=4)
    assert "--memory-limit: " in ran.sentence
    assert "is not a size" in ran.sentence
