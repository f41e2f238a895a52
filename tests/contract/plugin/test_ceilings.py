"""Ceilings of the hardware: the share of a known ceiling, and an error above the ceiling."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep

# Eight ranks: busbw is 1.75 times the script's rate.
A100: dict[str, Any] = {
    "device": "gpu",
    "device_kind": "NVIDIA A100-SXM4-80GB",
    "ranks": 8,
    "latency_s": 0,
}
H100 = A100 | {"device_kind": "NVIDIA H100 80GB HBM3"}
POSSIBLE, IMPOSSIBLE = 100, 400
TPU: dict[str, Any] = {"device": "tpu", "device_kind": "TPU v5 lite", "ranks": 8, "gb_per_s": 100}


def test_every_output_has_the_percentage_of_the_ceiling_that_a_case_reaches(
    folder: Folder,
) -> None:
    folder.script(**A100, gb_per_s=POSSIBLE)
    ran = folder.run("--payloads=1M,2M", exit_code=0)
    assert ran.outcomes == {"1M": "NO_BASELINE", "2M": "NO_BASELINE"}
    ceiling = ran.case()["ceiling"]
    assert (ceiling["bytes_per_s"], ceiling["text"]) == (300e9, "links: 12 of 25.0 GB/s")
    share = ran.case()["figures"]["ceiling_share"]
    assert share == pytest.approx(175 / 300, rel=0.04)
    assert float(ran.properties()["ceiling_share"]) == share
    lines = ran.text.splitlines()
    (head,) = (line for line in lines if line.split()[:1] == ["size"])
    (row,) = (line for line in lines if line.split()[:1] == ["1M"])
    assert row[: head.index("ceil") + len("ceil")].split()[-1] == "58"
    assert lines.count("ceiling 300 GB/s: links: 12 of 25.0 GB/s") == 1


@pytest.mark.parametrize(
    "kind",
    sweep(["TPU v2", "TPU v5 lite", "v5litepod-8", "TPU7x", "NVIDIA V100-SXM2-32GB"]),
)
def test_a_case_that_is_faster_than_all_links_of_a_chip_fails_for_any_shape_of_a_slice(
    folder: Folder, kind: str
) -> None:
    folder.script(
        device="gpu" if "NVIDIA" in kind else "tpu",
        device_kind=kind,
        ranks=8,
        latency_s=1e-9,
        gb_per_s=1e6,
        clocks=["device", "host"],
    )
    ran = folder.run("--payloads=64K:256K", exit_code=1)
    assert set(ran.outcomes.values()) == {"FAILED"}
    text = ran.case("64K")["text"]
    assert "links of" in text and "of every chip at once, whatever the shape" in text
    assert text.endswith("an error of measurement, not a record")


def test_a_case_with_a_rate_above_the_ceiling_fails_and_reports_no_time_and_no_rate(
    folder: Folder,
) -> None:
    folder.script(**A100, gb_per_s=IMPOSSIBLE)
    ran = folder.run(exit_code=1)
    assert ran.outcomes == {"1M": "FAILED"}
    case = ran.case()
    assert (case["now"], case["failure"]) == (None, None) and not case["figures"]
    assert len(case["launches"]) == 1
    assert case["text"].startswith("busbw 693 GB/s in the best launch is above 300 GB/s")
    assert case["text"].endswith("an error of measurement, not a record")
    (failure,) = ran.failures
    assert case["text"] in failure
    assert "1 failed" in ran.last_line


@pytest.mark.exhaustive
@pytest.mark.parametrize("update", sweep(["all", "new", "improved"]))
def test_the_option_update_baselines_stores_no_case_with_a_rate_above_the_ceiling(
    folder: Folder, update: str
) -> None:
    folder.script(**A100, gb_per_s=POSSIBLE)
    folder.with_baselines("--payloads=1M")
    before = folder.baseline_file.read_bytes()
    folder.script(**A100, gb_per_s=IMPOSSIBLE)
    ran = folder.run(f"--update-baselines={update}", "--payloads=1M,2M", exit_code=1)
    assert ran.outcomes == {"1M": "FAILED", "2M": "FAILED"}
    assert folder.baseline_file.read_bytes() == before
