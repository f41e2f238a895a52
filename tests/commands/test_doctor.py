"""`busbw doctor`: nothing is odd on an ordinary machine, and each planted oddity is named."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from busbw import locks
from busbw.commands.doctor.findings import Checked, findings
from tests.report.written import compiled_text, program

from .asked import Answer, asked_here

pytestmark = pytest.mark.sessions

GPU: dict[str, Any] = {
    "device": "gpu",
    "device_kind": "NVIDIA H100 80GB HBM3",
    "ranks": 8,
    "latency_s": 1e-4,
    "gb_per_s": 200,
    "clocks": ["device", "host", "dispatch"],
}
TPU: dict[str, Any] = {**GPU, "device": "tpu", "device_kind": "TPU v2", "gb_per_s": 20}
GIB = 2**30
RECORDED = Path(__file__).parents[1] / "recorded"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for no session of another folder, and is asked for no baselines."""
    monkeypatch.setenv(locks.MACHINE, str(tmp_path))
    monkeypatch.delenv("CI", raising=False)


def _examined(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: dict[str, Any], *options: str
) -> Answer:
    monkeypatch.setenv("BUSBW_FAKE", json.dumps(script))
    path = folder / "machine.json"
    answer = asked_here("doctor", "--frameworks=fake", *options, "-o", path)
    assert "Traceback" not in answer.err
    return answer


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", [GPU, {}], ids=["gpu", "cpu"])
def test_nothing_is_odd_on_an_ordinary_machine(
    script: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = _examined(tmp_path, monkeypatch, script)
    assert "not as expected: nothing" in answer.out, answer.out
    assert answer.code == 0
    assert not list(tmp_path.parent.glob("busbw-doctor.*"))


@pytest.mark.parametrize(
    ("checks", "script", "planted", "said"),
    [
        (
            "host,device",
            GPU,
            {"device_slower": 1.1},
            "clocks: fake.all_reduce.fake.float32.64M takes ",
        ),
        (
            "dtypes",
            TPU,
            {"cases": [{"dtype": "int32", "then": "wrong_result"}]},
            "dtypes: 1 FAILED: fake int32 1M: wrong result in 1 of 1 launches: rank 1, element 7",
        ),
        (
            "memory",
            TPU,
            {"cases": [{"payload_bytes": GIB << n, "then": "out_of_memory"} for n in range(8)]},
            "memory: fake all_reduce (fake): 512M fits, 1024M does not (raised), though a rank",
        ),
        pytest.param(
            "curve",
            GPU,
            {"gb_per_s": 50},
            "links: fake all_reduce (fake) reaches 19 % of what they",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            "noise",
            GPU,
            {"cases": [{"passes": [3, 4, 9], "slower": 1.05}]},
            "noise: fake-default-float32-1M takes ",
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["clock", "dtype", "memory", "link", "noise"],
)
def test_what_is_planted_is_named(
    checks: str,
    script: dict[str, Any],
    planted: dict[str, Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = f"--checks={checks}"
    usual = _examined(tmp_path, monkeypatch, script, asked)
    assert said not in usual.out
    odd = _examined(tmp_path, monkeypatch, {**script, **planted}, asked)
    assert odd.code == 1
    assert f"\n- {said}" in odd.out, odd.out


def test_another_machine_reads_the_file_and_is_told_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = {**GPU, "device_slower": 1.2}
    answer = _examined(tmp_path, monkeypatch, script, "--checks=host,device")
    told = asked_here("doctor", "--read", tmp_path / "machine.json")
    begin = answer.out.index("busbw doctor, ")
    assert told.out == answer.out[begin : answer.out.rindex("all of it is in ")]
    assert told.code == answer.code == 1
    assert "device: NVIDIA H100 80GB HBM3\nranks: 8 ranks\n" in told.out
    assert "not as expected: " in told.out and " 1.2" not in told.err


@pytest.mark.parametrize(
    ("checks", "script", "said"),
    [
        ("host", {"probe": "exit"}, f"host: {sys.executable}: the worker ended with exit code 3"),
        ("memory", {"cases": [{"then": "out_of_memory"}]}, "memory: fake all_reduce (fake): noth"),
        ("curve", {**TPU, "device_kind": "TPU v99"}, "links: what those of TPU v99 allow for fake"),
    ],
)
def test_what_could_not_be_examined_is_odd_and_not_fine(
    checks: str, script: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = _examined(tmp_path, monkeypatch, script, f"--checks={checks}")
    assert answer.code == 1
    assert f"\n- {said}" in answer.out, answer.out


def test_a_clock_that_a_cpu_has_not_is_not_odd_and_one_that_fails_is() -> None:
    none = Checked(
        name="device", seconds=0.1, problem="fake has no clock device on the CPU; it has"
    )
    dead = Checked(name="host", seconds=0.1, problem="the worker ended with exit code 3")
    assert findings([none, dead], {}) == ["host: the worker ended with exit code 3"]


def test_in_ci_a_case_without_a_baseline_is_not_odd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    answer = _examined(tmp_path, monkeypatch, {}, "--checks=host")
    assert (answer.code, "not as expected: nothing" in answer.out) == (0, True), answer.out


@pytest.mark.parametrize(
    ("name", "compiled", "said"),
    [("x", False, "'x' is no check; known are "), ("host", True, "host: these results were comp")],
)
def test_a_file_of_something_else_is_refused(
    name: str, compiled: bool, said: str, tmp_path: Path
) -> None:
    results = json.loads(compiled_text(program(4096, 10))) if compiled else None
    check = {"name": name, "seconds": 1, "problem": "", "results": results}
    document = {"document": "busbw doctor", "version": 1, "busbw": "1", "began": "now"}
    (tmp_path / "d.json").write_text(json.dumps({**document, "checks": [check]}))
    asked_here("doctor", "--read", tmp_path / "d.json").refuses(said)


def test_what_a_cpu_with_both_frameworks_gave_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    path.write_bytes(gzip.decompress((RECORDED / "doctor.json.gz").read_bytes()))
    told = asked_here("doctor", "--read", path)
    lines = told.out.splitlines()
    assert told.code == 1 and "device: AMD EPYC, 2 cores" in lines
    assert "memory: jax all_reduce (psum): 2048M fits, 4096M does not (predicted)" in lines
    odd = lines[lines.index("not as expected: 13") + 1 :]
    assert [one.split(":")[0] for one in odd] == [
        *["- dtypes"] * 2,
        *["- device"] * 2,
        *["- clocks"] * 3,
        *["- noise"] * 6,
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--device=tpux"], "argument --device: 'tpux'; did you mean 'tpu'? accepted are auto"),
        (["--frameworks=jaks"], "argument --frameworks: 'jaks'; accepted are jax"),
        (["--checks=clocks"], "argument --checks: 'clocks'; accepted are collectives, dtypes, "),
        (["--checks="], "argument --checks: ''; accepted are collectives, dtypes, "),
        (["--read", "none.json"], "none.json: "),
        (["--read", "other.json"], "other.json: this does not say what it is"),
        (["-o", "other.json"], "--output: "),
    ],
)
def test_what_cannot_be_is_a_usage_error(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text("{}")
    asked_here("doctor", "--frameworks=fake", *words).refuses(said)
    assert (tmp_path / "other.json").read_text() == "{}"


def test_a_device_that_is_not_here_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = _examined(tmp_path, monkeypatch, {}, "--checks=host,dtypes", "--device=tpu")
    assert answer.code == 1
    assert answer.out.count("no TPU") == 3
    assert "not as expected: 1\n- host, dtypes: " in answer.out
