"""--results as CSV and on standard output, and --metrics: figures for other programs."""

from __future__ import annotations

import csv

import pytest

from tests.helpers.session_folder import SLOW, Folder


def test_a_csv_file_of_results_has_a_row_with_times_and_rates_for_each_case(folder: Folder) -> None:
    folder.script(**SLOW, cases=[{"payload_bytes": 2048, "then": "kill"}])
    folder.run("--results=night.csv", "--payloads=1K,2K,4K", exit_code=1)
    rows = list(csv.DictReader((folder.path / "night.csv").read_text().splitlines()))
    assert [row["case"] for row in rows] == [f"fake-default-float32-{n}K" for n in (1, 2, 4)]
    assert [row["outcome"] for row in rows] == ["NO_BASELINE", "FAILED", "NO_BASELINE"]
    first, failed, _ = rows
    assert (first["payload_bytes"], first["ranks"], first["dtype"]) == ("1024", "4", "float32")
    assert float(first["median_s"]) > 0
    assert float(first["algbw_gb_per_s"]) > 0 and first["ratio"] == ""
    assert failed["median_s"] == ""
    (folder.path / "night.csv").write_text("my,own\n")
    ran = folder.run("--results=night.csv", "--payloads=1K", exit_code=4)
    assert "--results: " in ran.sentence and "earlier results" in ran.sentence


@pytest.mark.extension("metrics")
def test_the_metrics_file_has_the_outcome_and_the_time_and_the_rates_of_each_case(
    folder: Folder,
) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    folder.script(**SLOW)
    folder.with_baselines("--payloads=1K,1M")
    folder.script(**SLOW, cases=[{"payload_bytes": 2**20, "slower": 3}])
    ran = folder.run("--metrics=m.prom", "--payloads=1K,1M", exit_code=1)
    text = (folder.path / "m.prom").read_text()
    samples = {
        sample.name: sample.samples for sample in parser.text_string_to_metric_families(text)
    }
    (failed,) = samples["busbw_session_failed"]
    assert failed.value == 1
    outcomes = {
        (sample.labels["payload_bytes"], sample.labels["outcome"]): sample.value
        for sample in samples["busbw_case_outcome"]
    }
    assert outcomes == {("1024", "PASS"): 1, ("1048576", "REGRESSED"): 1}
    assert samples["busbw_case_time_seconds"][1].labels == {
        "case": "fake-default-float32-1M",
        "framework": "fake",
        "collective": "all_reduce",
        "strategy": "fake",
        "dtype": "float32",
        "payload_bytes": "1048576",
        "ranks": "4",
    }
    case = ran.case("1M")
    for name, metric in (("median_s", "time_seconds"), ("busbw_gb_per_s", "busbw_gb_per_second")):
        assert samples[f"busbw_case_{metric}"][1].value == pytest.approx(case["figures"][name])
    assert samples["busbw_case_ratio"][1].value == pytest.approx(case["ratio"])


@pytest.mark.exhaustive
@pytest.mark.extension("metrics")
def test_the_option_metrics_refuses_to_overwrite_a_file_that_holds_no_metrics(
    folder: Folder,
) -> None:
    (folder.path / "a.prom").write_text("my own")
    ran = folder.run("--metrics=a.prom", exit_code=4)
    assert "--metrics: " in ran.sentence and "earlier metrics of busbw" in ran.sentence
    conftest = folder.path / "conftest.py"
    none = "import sys\n\nsys.modules['prometheus_client'] = None\n"
    conftest.write_text(none + conftest.read_text())
    ran = folder.run("--metrics=m.prom", exit_code=4)
    assert "--metrics: metrics need busbw[metrics]" in ran.sentence
