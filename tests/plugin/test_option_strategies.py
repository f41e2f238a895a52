"""--strategies: each framework takes those it knows; its true name stands in the case."""

from __future__ import annotations

from tests.worker.backends.real import needs

from .folder import WITHOUT_CACHE, Folder


def test_a_strategy_is_measured_under_its_true_name(folder: Folder) -> None:
    ran = folder.run("--strategies=default", exit_code=0)
    assert ran.case()["case"]["strategy"] == "fake"
    assert ran.case()["id"] == "fake-default-float32-1M"
    ran = folder.run("--strategies=fake", exit_code=0)
    assert ran.case()["id"] == "fake-fake-float32-1M"


def test_two_names_of_one_strategy_are_two_tests_of_one_measurement(folder: Folder) -> None:
    ran = folder.run("--strategies=default,fake", exit_code=0)
    assert ran.results is not None
    cases = ran.results["cases"]
    assert [c["id"] for c in cases] == ["fake-default-float32-1M", "fake-fake-float32-1M"]
    assert [c["outcome"] for c in cases] == ["NO_BASELINE", "NO_BASELINE"]
    assert [len(c["launches"]) for c in cases] == [1, 1]


@needs("tensorflow")
def test_tensorflow_s_strategies_for_gpus_are_known_where_none_is_attached(folder: Folder) -> None:
    options = ("perf", "--frameworks=tensorflow", "--payloads=1M", *WITHOUT_CACHE)
    for strategy in ("nccl", "collective_nccl"):
        asked = f"--strategies={strategy}"
        ran = folder.pytest(*options, asked, "--collect-only", "-q", exit_code=0, reports=False)
        assert f"tensorflow-{strategy}-float32-1M" in ran.text
    ran = folder.pytest(*options, "--device=cpu", "--strategies=collective_nccl", exit_code=4)
    assert "tensorflow has no strategy collective_nccl for all_reduce on the CPU" in ran.sentence
