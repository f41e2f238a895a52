"""Records of pytest-benchmark: every sample as it was measured, with figures in GB/s."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.session_folder import Folder


def rows(folder: Folder) -> list[dict[str, Any]]:
    """Return the benchmarks in the file of --benchmark-json."""
    document = json.loads((folder.path / "benchmark.json").read_text())
    benchmarks: list[dict[str, Any]] = document["benchmarks"]
    return benchmarks


def test_the_json_file_of_pytest_benchmark_has_all_samples_and_the_bandwidths_of_each_case(
    folder: Folder,
) -> None:
    json_option = f"--benchmark-json={folder.path / 'benchmark.json'}"
    ran = folder.run(json_option, "--payloads=1K,1M", "--launches=2", exit_code=0)
    assert [row["name"] for row in rows(folder)] == [
        "test_collective[fake-default-float32-1K]",
        "test_collective[fake-default-float32-1M]",
    ]
    for row, payload in zip(rows(folder), ("1K", "1M")):
        case = ran.case(payload)
        samples = [sample for launch in case["launches"] for sample in launch["samples_s"]]
        assert row["stats"]["rounds"] == len(samples) >= 4
        assert all(abs(a / b - 1) < 1e-9 for a, b in zip(row["stats"]["data"], samples))
        extra = row["extra_info"]
        assert extra["busbw_gb_per_s"] == case["now"]["busbw_gb_per_s"]
        assert extra["algbw_gb_per_s"] == case["now"]["algbw_gb_per_s"]
        assert extra["payload_bytes"] == case["case"]["payload_bytes"]
        assert row["group"] == "fake.fake"
        assert row["params"] == {"case": f"fake-default-float32-{payload}"}
        assert extra["collective"] == "all_reduce" and extra["dtype"] == "float32"
        assert extra["outcome"] == case["outcome"] == "NO_BASELINE"
        assert extra["provisional"] is False and extra["spread"] == case["now"]["spread"]
        assert extra["device"] == ran.document["environment"]["key"]["device_kind"]
        assert extra["versions"] == "fake 1"
    text = (folder.path / "benchmark.json").read_text()
    assert "UNSERIALIZABLE" not in text and " object at 0x" not in text


@pytest.mark.exhaustive
def test_the_table_of_pytest_benchmark_has_only_the_cases_with_samples(
    folder: Folder,
) -> None:
    folder.script(cases=[{"payload_bytes": 1024, "then": "out_of_memory"}])
    ran = folder.run("--payloads=1K,1M", "--benchmark-verbose", exit_code=0)
    table = ran.text.split("benchmark 'fake.fake'")[1]
    assert "float32-1M]" in table
    assert "float32-1K]" not in table


@pytest.mark.exhaustive
def test_the_comparison_of_pytest_benchmark_fails_no_case(folder: Folder) -> None:
    storage = f"--benchmark-storage={folder.path / 'storage'}"
    folder.run(storage, "--benchmark-autosave", exit_code=0)
    folder.script(cases=[{"slower": 3}])
    assert folder.run(storage, "--benchmark-compare", exit_code=0).outcomes == {"1M": "NO_BASELINE"}
