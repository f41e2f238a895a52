"""`busbw doctor`: a line for each check of a new machine, and all results in one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from busbw import storage
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.extensions.setup import doctor
from busbw.report.results import read_results
from tests.helpers.command_line import Answer, asked_here
from tests.helpers.sweep import sweep

pytestmark = pytest.mark.sessions

GPU: dict[str, Any] = {
    "device": "gpu",
    "device_kind": "NVIDIA H100 80GB HBM3",
    "ranks": 8,
    "latency_s": 1e-4,
    "gb_per_s": 200,
    "clocks": ["device", "host", "dispatch"],
}

# `busbw doctor` with some of its checks, on a machine that does what a script says.
Examine = Callable[..., Answer]


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examine:
    # It waits for no session of another folder. In CI a case without a baseline would fail.
    monkeypatch.setenv(storage.MACHINE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("CI", "true")

    def examined(script: dict[str, Any], *names: str) -> Answer:
        monkeypatch.setenv("BUSBW_FAKE", json.dumps(script))
        checks = {name: doctor.CHECKS[name] for name in names or doctor.CHECKS}
        monkeypatch.setattr(doctor, "CHECKS", checks)
        return asked_here("doctor", "--frameworks=fake", "-o", tmp_path / "machine.json")

    return examined


@pytest.mark.exhaustive
def test_busbw_doctor_prints_a_line_for_every_check_and_writes_the_results_to_a_file(
    tmp_path: Path, examine: Examine
) -> None:
    answer = examine(GPU)
    assert (answer.code, answer.err) == (0, "")
    *lines, last = answer.out.splitlines()
    descriptions = [check["description"] for check in doctor.CHECKS.values()]
    assert [line.partition(": ")[0] for line in lines] == descriptions
    assert last == f"the results are in {tmp_path / 'machine.json'}"
    document = json.loads((tmp_path / "machine.json").read_text())
    assert [check["name"] for check in document["checks"]] == list(doctor.CHECKS)


def test_the_file_of_busbw_doctor_has_the_results_of_its_sessions(
    tmp_path: Path, examine: Examine
) -> None:
    answer = examine(GPU, "host")
    assert answer.out.startswith("the host's clock: 2 measured\n")
    assert answer.code == 0
    (check,) = json.loads((tmp_path / "machine.json").read_text())["checks"]
    assert check["problems"] == []
    assert len(read_results(json.dumps(check["results"])).verdicts) == 2
    assert not list(tmp_path.parent.glob("busbw-doctor.*"))


@pytest.mark.parametrize(
    ("name", "option", "values"),
    [
        ("collectives", "--collectives", COLLECTIVES),
        ("dtypes", "--dtypes", DTYPES),
        ("dtypes", "--reduce-ops", REDUCE_OPS),
    ],
)
def test_busbw_doctor_checks_every_collective_and_dtype_and_reduce_operation(
    name: str, option: str, values: Collection[str]
) -> None:
    assert f"{option}={','.join(values)}" in doctor.CHECKS[name]["options"]


WRONG = {"cases": [{"reduce_op": "max", "dtype": "float32", "then": "wrong_result"}]}
NO_MEMORY = {"cases": [{"then": "out_of_memory"}]}
NOISY = {"cases": [{"passes": [3, 4, 9], "slower": 1.05}]}


@pytest.mark.parametrize(
    ("names", "script", "text"),
    sweep(
        [
            (["host", "device"], {"device_slower": 1.1}, "fake-device-default-float32-64M takes "),
            (["dtypes"], WRONG, "1 FAILED: fake max 1M: wrong result in 1 of 1 launches"),
            (["memory"], NO_MEMORY, "fake-default-float32-512M does not fit: "),
            (["curve"], {"gb_per_s": 50}, "fake all_reduce (fake) reaches 19 % of the bandwidth"),
            (["noise"], NOISY, "fake-default-float32-1M takes "),
            (["host"], {"probe": "exit"}, "the worker ended with exit code 3"),
        ],
        in_gate=2,
    ),
)
def test_busbw_doctor_names_the_problem_that_a_check_finds(
    names: list[str], script: dict[str, Any], text: str, examine: Examine
) -> None:
    answer = examine({**GPU, **script}, *names)
    assert answer.code == 1
    assert text in answer.out.splitlines()[-2], answer.out
