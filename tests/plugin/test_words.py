"""What a session says of a case: the limit, what was seen within it, how launches differ."""

from __future__ import annotations

import re

from .folder import SLOW, Folder

THREE = ("--payloads=64K,128K,256K", "--launches=3")


def test_a_loss_seen_again_within_its_limit_is_noisy_and_named_with_the_way_out(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.with_baselines(*THREE)
    folder.script(**SLOW, cases=[{"payload_bytes": 1 << 16, "slower": 1.5}])
    ran = folder.run(*THREE, exit_code=0)
    assert ran.outcomes == {"64K": "NOISY", "128K": "PASS", "256K": "PASS"}
    assert "1.500 x the time, " in ran.case("64K")["text"]
    assert (
        "slower, seen again (1.500 x), within the limit (the limit of 1 session: accept more, or "
        "--against=baseline tells)"
    ) in ran.case("64K")["text"]
    last = ran.text.splitlines()[-2]
    assert last.startswith("FINE: 3 cases measured in ")
    assert "; a case fails from 1.7 x on; within its limit, and not ruled out: " in last
    assert last.endswith("fake.all_reduce.fake.float32.64K 1.50 x")
    assert "flag" not in ran.text and "limit" in ran.text


def test_one_launch_of_three_that_is_eight_times_slower_is_in_the_range_and_a_mode(
    folder: Folder,
) -> None:
    folder.script(**SLOW)
    folder.with_baselines(*THREE)
    folder.script(**SLOW, cases=[{"payload_bytes": 1 << 16, "passes": [2], "slower": 8}])
    ran = folder.run(*THREE, exit_code=0)
    (row,) = (line for line in ran.text.splitlines() if line.lstrip().startswith("64K "))
    assert re.search(r" -\d\+(69|70)\d ", row)
    assert "two modes: 4 launches at 1.0" in ran.text
    fast, slow = ran.case("64K")["modes"]
    assert (len(fast), len(slow)) == (4, 1) and slow[0] > 7 * max(fast)
    assert ran.outcomes["64K"] == "PASS"


def test_above_twice_the_time_it_is_a_factor_and_not_per_cent(folder: Folder) -> None:
    folder.script(**SLOW)
    folder.with_baselines(*THREE)
    folder.script(**SLOW, cases=[{"payload_bytes": 1 << 16, "slower": 4.8}])
    ran = folder.run(*THREE, exit_code=1)
    assert "over the sizes: 64K is slower, to 4.8 x (1 of 3 sizes)" in ran.case("64K")["notes"]


def test_what_was_measured_and_not_compared_is_counted(folder: Folder) -> None:
    folder.with_baselines("--payloads=64K")
    ran = folder.run(*THREE, exit_code=0)
    assert "FINE: 3 cases measured in 3 launches each, 1 of them compared; " in ran.text


def test_a_latency_that_is_too_small_to_see_is_no_0(folder: Folder) -> None:
    folder.script(latency_s=1e-12, gb_per_s=10)
    ran = folder.run("--payloads=1M:64M", exit_code=0)
    assert "latency too small to see, bandwidth " in ran.text
    assert "latency 0 us" not in ran.text
