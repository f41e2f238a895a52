"""`busbw doctor`: nothing is odd on an ordinary machine, and each planted oddity is named."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from busbw import locks
from busbw.commands.doctor import recordings
from busbw.commands.doctor.findings import Checked, findings
from busbw.model import variables
from tests.report.written import compiled_text, program
from tests.sweep import sweep
from tests.traces.written import Line, Made, plane, space

from .asked import Answer, asked_here

pytestmark = pytest.mark.sessions

H100 = "NVIDIA H100 80GB HBM3"
GPU: dict[str, Any] = {
    "device": "gpu",
    "device_kind": H100,
    "ranks": 8,
    "latency_s": 1e-4,
    "gb_per_s": 200,
    "clocks": ["device", "host", "dispatch"],
}
TPU: dict[str, Any] = {**GPU, "device": "tpu", "device_kind": "TPU v2", "gb_per_s": 20}
GIB = 2**30
RECORDED = Path(__file__).parents[1] / "recorded"
MEMORY = [
    "memory: jax all_reduce (psum): 2048M fits (peak 16.3 GiB, 1.000 x the prediction); 4096M does "
    "not: needs 32.0 GiB, 21.6 GiB available (predicted before touching memory)",
    "memory: tensorflow all_reduce (ring): 1024M fits (peak 12.0 GiB, 1.002 x the prediction); "
    "2048M does not: needs 23.0 GiB, 21.5 GiB available (predicted before touching memory)",
]
TIME = (
    "time: 45.26 s of the curve's workers: sampling 25 %, compiling 20 %, warming up 19 %, laying "
    "out 15 %, prefaulting 12 %, checking 9 %"
)
RECORDINGS = [
    "recording: jax.all_reduce.psum.float32.64M: 32.4 KiB, 2 all_reduce on 4 ranks, 29.46 ms by "
    "the slowest",
    "recording: tensorflow.all_reduce.ring.float32.64M: 127.4 KiB, 2 all_reduce on 4 ranks, 78.09 "
    "ms by the slowest",
]
# The dtypes that are not computed as asked, and the noise of a machine that others use.
ODD = {"- dtypes": 4, "- device": 2, "- clocks": 4, "- noise": 7}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for no session of another folder, and is asked for no baselines."""
    monkeypatch.setenv(locks.MACHINE, str(tmp_path))
    monkeypatch.delenv("CI", raising=False)


# `busbw doctor` with options of a machine that does as a script says.
Examine = Callable[..., Answer]


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examine:
    def examined(script: dict[str, Any], *options: str) -> Answer:
        monkeypatch.setenv("BUSBW_FAKE", json.dumps(script))
        path = tmp_path / "machine.json"
        answer = asked_here("doctor", "--frameworks=fake", *options, "-o", path)
        assert "Traceback" not in answer.err
        return answer

    return examined


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", [GPU, {}], ids=["gpu", "cpu"])
def test_nothing_is_odd_on_an_ordinary_machine(
    script: dict[str, Any], tmp_path: Path, examine: Examine
) -> None:
    answer = examine(script)
    assert "not as expected: nothing" in answer.out, answer.out
    assert answer.code == 0
    assert not list(tmp_path.parent.glob("busbw-doctor.*"))


@pytest.mark.parametrize(
    ("checks", "script", "planted", "said"),
    sweep(
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
                {"cases": [{"dtype": "int32", "reduce_op": "sum", "then": "wrong_result"}]},
                "dtypes: 1 FAILED: fake sum int32 1M: wrong result in 1 of 1 launches: rank 1, "
                "elem",
            ),
            (
                "dtypes",
                GPU,
                {"cases": [{"reduce_op": "max", "dtype": "float32", "then": "wrong_result"}]},
                "dtypes: 1 FAILED: fake max float32 1M: wrong result in 1 of 1 launches: rank 1, "
                "elem",
            ),
            (
                "memory",
                TPU,
                {"cases": [{"payload_bytes": GIB << n, "then": "out_of_memory"} for n in range(8)]},
                "memory: fake all_reduce (fake): 512M fits; 1024M does not: RESOURCE_EXHAUSTED: "
                "made up (raised by the framework), predicted to need 2.0 GiB of the 8.0 GiB "
                "that a rank",
            ),
            (
                "curve",
                GPU,
                {"gb_per_s": 50},
                "links: fake all_reduce (fake) reaches 19 % of what they",
            ),
            (
                "noise",
                GPU,
                {"cases": [{"passes": [3, 4, 9], "slower": 1.05}]},
                "noise: fake-default-float32-1M takes ",
            ),
        ],
        in_gate=2,
    ),
    ids=["clock", "dtype", "reduce op", "memory", "link", "noise"],
)
def test_what_is_planted_is_named(
    checks: str, script: dict[str, Any], planted: dict[str, Any], said: str, examine: Examine
) -> None:
    asked = f"--checks={checks}"
    usual = examine(script, asked)
    assert said not in usual.out
    odd = examine({**script, **planted}, asked)
    assert odd.code == 1
    assert f"\n- {said}" in odd.out, odd.out


def test_another_machine_reads_the_file_and_is_told_the_same(
    tmp_path: Path, examine: Examine
) -> None:
    script = {**GPU, "device_slower": 1.2}
    answer = examine(script, "--checks=host,device")
    told = asked_here("doctor", "--read", tmp_path / "machine.json")
    begin = answer.out.index("busbw doctor, ")
    assert told.out == answer.out[begin : answer.out.rindex("all of it is in ")]
    assert told.code == answer.code == 1
    assert "device: NVIDIA H100 80GB HBM3\nranks: 8 ranks\n" in told.out
    assert "not as expected: " in told.out and " 1.2" not in told.err


@pytest.mark.parametrize(
    ("checks", "script", "said"),
    sweep(
        [
            (
                "host",
                {"probe": "exit"},
                f"host: {sys.executable}: the worker ended with exit code 3",
            ),
            (
                "memory",
                {"cases": [{"then": "out_of_memory"}]},
                "memory: fake all_reduce (fake): noth",
            ),
            (
                "curve",
                {**TPU, "device_kind": "TPU v99"},
                "links: what those of TPU v99 allow for fake",
            ),
        ]
    ),
)
def test_what_could_not_be_examined_is_odd_and_not_fine(
    checks: str, script: dict[str, Any], said: str, examine: Examine
) -> None:
    answer = examine(script, f"--checks={checks}")
    assert answer.code == 1
    assert f"\n- {said}" in answer.out, answer.out


def test_a_clock_that_a_cpu_has_not_is_not_odd_and_one_that_fails_is() -> None:
    none = Checked(
        name="device", seconds=0.1, problem="fake has no clock device on the CPU; it has"
    )
    dead = Checked(name="host", seconds=0.1, problem="the worker ended with exit code 3")
    assert findings([none, dead], {}) == ["host: the worker ended with exit code 3"]


def test_in_ci_a_case_without_a_baseline_is_not_odd(
    monkeypatch: pytest.MonkeyPatch, examine: Examine
) -> None:
    monkeypatch.setenv("CI", "true")
    answer = examine({}, "--checks=host")
    assert (answer.code, "not as expected: nothing" in answer.out) == (0, True), answer.out


@pytest.mark.parametrize(
    ("name", "compiled", "said"),
    [
        ("x", False, "'x' is no check; known are "),
        ("host", True, "host: these results were comp"),
        ("host", None, "checks[0].results: expected some where there is no problem"),
    ],
)
def test_a_file_of_something_else_is_refused(
    name: str, compiled: bool | None, said: str, tmp_path: Path
) -> None:
    results = json.loads(compiled_text(program(4096, 10))) if compiled else None
    problem = "none" if compiled is False else ""
    check = {"name": name, "seconds": 1, "problem": problem, "results": results}
    document = {"document": "busbw doctor", "version": 1, "busbw": "1", "began": "now"}
    (tmp_path / "d.json").write_text(json.dumps({**document, "checks": [check]}))
    asked_here("doctor", "--read", tmp_path / "d.json").refuses(said)


def _recorded() -> dict[str, Any]:
    """What a CPU with both frameworks gave, its checks by name."""
    found: dict[str, Any] = json.loads(gzip.decompress((RECORDED / "doctor.json.gz").read_bytes()))
    return found


def _read(folder: Path, document: dict[str, Any]) -> Answer:
    (folder / "cpu.json").write_text(json.dumps(document))
    return asked_here("doctor", "--read", folder / "cpu.json")


def _launches(document: dict[str, Any], check: str) -> Iterator[dict[str, Any]]:
    found = next(one for one in document["checks"] if one["name"] == check)
    return (run for row in found["results"]["cases"] for run in row["launches"])


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 * 2**30)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "is a named pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "is a device"),
        (_sparse, "has 3221225472 bytes"),
    ],
)
def test_what_is_no_file_or_too_large_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    make(tmp_path / "cpu.json")
    asked_here("doctor", "--read", tmp_path / "cpu.json").refuses(said)


def test_a_file_without_a_check_is_no_machine_that_is_fine(tmp_path: Path) -> None:
    _read(tmp_path, _recorded() | {"checks": []}).refuses("checks: expected one or more")


def test_what_a_cpu_with_both_frameworks_gave_is_read(tmp_path: Path) -> None:
    told = _read(tmp_path, _recorded())
    lines = told.out.splitlines()
    assert told.code == 1 and "device: Intel(R) Xeon(R) Processor, 2 cores" in lines
    assert "links: none, ranks on a CPU share its memory" in lines
    assert [one for one in lines if one.startswith("memory: ")] == MEMORY
    assert TIME in lines
    assert [one for one in lines if one.startswith("recording: ")] == RECORDINGS
    odd = lines[lines.index(f"not as expected: {sum(ODD.values())}") + 1 :]
    assert Counter(one.split(":")[0] for one in odd) == ODD


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("peak_memory_bytes", 40 * GIB, "fits (peak 40.0 GiB, "),
        ("predicted_memory_bytes", 40 * GIB, "fits (peak "),
    ],
)
def test_memory_that_takes_more_or_less_than_was_predicted_is_odd(
    key: str, value: int, said: str, tmp_path: Path
) -> None:
    document = _recorded()
    for run in _launches(document, "memory"):
        run[key] = value
    told = _read(tmp_path, document)
    odd = [one for one in told.out.splitlines() if one.startswith("- memory: ")]
    assert len(odd) == 2 and said in odd[0]


@pytest.mark.parametrize(
    ("device", "kind", "compiled", "said"),
    [
        ("cpu", "a CPU", None, "(raised by the framework), predicted to need 32."),
        ("gpu", H100, None, ", predicted to need 8.0 GiB of the 80.0 GiB that a rank has"),
        ("gpu", H100, 90 * GIB, ", predicted to need 180.0 GiB of the 80.0 GiB that a rank has"),
        ("tpu", "TPU v2", None, ""),
    ],
    ids=["host", "early", "late", "as predicted"],
)
def test_memory_that_ends_elsewhere_than_predicted_is_odd(
    device: str, kind: str, compiled: int | None, said: str, tmp_path: Path
) -> None:
    document = _recorded()
    (check,) = document["checks"] = [one for one in document["checks"] if one["name"] == "memory"]
    check["results"]["environment"]["device"] = device
    check["results"]["environment"]["key"]["device_kind"] = kind
    for row in check["results"]["cases"]:
        for failure in filter(None, [row["failure"], *row["failures"]]):
            failure["found"] = "raised"
    for run in _launches(document, "memory") if device != "cpu" else ():
        run["predicted_memory_bytes"] = None
        run["compiled_memory_bytes"] = compiled or run["compiled_memory_bytes"]
    told = _read(tmp_path, document)
    odd = [one for one in told.out.splitlines() if one.startswith("- memory: jax")]
    assert [said in one for one in odd] == ([True] if said else [])


def test_the_limit_is_wider_with_noise_and_never_below_the_floor(tmp_path: Path) -> None:
    document = _recorded()
    noisy = _limits(_read(tmp_path, document))
    for run in _launches(document, "noise"):
        run["samples_s"] = [1.0]
    quiet = _limits(_read(tmp_path, document))
    # A few quiet launches do not outweigh what is expected of a CPU, which other work may share.
    assert quiet == [1.2] * 6
    assert all(1.15 <= limit < 4 for limit in noisy) and max(noisy) > 1.2


def _limits(told: Answer) -> list[float]:
    lines = told.out.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("noise of "))
    return [float(line.split()[-1]) for line in lines[begin + 2 : begin + 8]]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("NVIDIA H200", "18 a chip, 25.0 GB/s each way (switch; high confidence: MLPerf "),
        ("TPU v2", "4 a chip, 62.0 GB/s each way (2D torus; low confidence: secondary pages)"),
        ("TPU v99", "those of TPU v99 are not known"),
    ],
)
def test_what_is_known_of_links_is_said(kind: str, said: str, examine: Examine) -> None:
    script = {**(GPU if "NVIDIA" in kind else TPU), "device_kind": kind}
    assert f"\nlinks: {said}" in examine(script, "--checks=host").out


def _recording(text: str, ms: int = 1, ranks: int = 2) -> bytes:
    """Two all-reduces on some ranks, the first of which is the warm-up, and `text` on the host."""
    times = [
        Made(name="all-reduce.1", offset_ps=n * 10**10, duration_ps=ms * 10**9) for n in (0, 1)
    ]
    lines = [Line(name="XLA Ops", events=times)]
    there = [plane(f"/device:TPU:{n}", lines) for n in range(ranks)]
    return space(*there, plane("/host:CPU", [Line(name="python", events=[Made(name=text)])]))


def _left(folder: Path, **contents: bytes) -> tuple[recordings.Recording, ...]:
    for name, content in contents.items():
        case = folder / f"{name.replace('_', '.')}@x1" / "plugins"
        case.mkdir(parents=True)
        (case / "here.xplane.pb").write_bytes(content)
    return recordings.kept(folder)


def _unpacked(recording: recordings.Recording) -> bytes:
    return gzip.decompress(base64.b64decode(recording.content))


def test_the_smallest_recording_of_each_framework_is_kept_and_read(tmp_path: Path) -> None:
    large, small = _recording("long " * 99, 3), _recording("", 2)
    found = _left(tmp_path, jax_1M=large, jax_64M=small, tensorflow_1M=large)
    assert {one.case: _unpacked(one) for one in found} == {"jax.64M": small, "tensorflow.1M": large}
    (text, is_odd), _ = recordings.texts(found)
    assert (
        text
        == f"recording: jax.64M: {len(small)} bytes, 1 all_reduce on 2 ranks, 2 ms by the slowest"
    )
    assert not is_odd


def test_no_home_and_no_secret_is_kept_of_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/data/people/me")
    monkeypatch.setenv("THEIR_TOKEN", "hunter2hunter2")
    name = "/data/people/me/x.py /home/you/y.py https://you:word@host hunter2hunter2 /home"
    (found,) = _left(tmp_path, jax_1M=_recording(name))
    masked = f"{'*' * 15}/x.py {'*' * 9}/y.py https://{'*' * 8}@host {'*' * 14} /home"
    assert _unpacked(found) == _recording(masked)
    assert not any(is_odd for _, is_odd in recordings.texts([found]))


def test_a_recording_that_is_too_large_is_left_out_with_a_reason(tmp_path: Path) -> None:
    found = _left(tmp_path, jax_1M=random.Random(1).randbytes(1_100_000))
    said = "recording: jax.1M: not kept: it is too large: 1.0 MiB, compressed 1.0 MiB"
    assert list(recordings.texts(found)) == [(said, False)]


def test_where_the_profiler_leaves_none_that_is_said_and_not_odd(examine: Examine) -> None:
    answer = examine(GPU, "--checks=device,host")
    assert answer.out.count("recording: not kept: the profiler left no *.xplane.pb\n") == 1
    assert answer.code == 0


def _in_gzip(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content)).decode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("none", "Error -3 while decompressing data"),
        ("?", "Only base64 data is allowed"),
        (_in_gzip(_recording(""))[:40], "it is cut, or unpacks to more than 61.0 MiB"),
        (_in_gzip(bytes(65_000_000)), "it is cut, or unpacks to more than 61.0 MiB"),
        (_in_gzip(_recording("")[:-1]), "byte "),
        (_in_gzip(_recording("", ranks=0)), "no all_reduce in it beyond the warm-up"),
    ],
    ids=["no gzip", "no base64", "cut", "bomb", "damaged", "empty"],
)
def test_a_recording_that_cannot_be_read_is_odd(content: str, said: str, tmp_path: Path) -> None:
    why = "fake has no clock device on the CPU; it has host"
    check = {"name": "device", "seconds": 1, "results": None, "problem": why}
    kept = {"case": "jax.1M", "content": content, "problem": ""}
    document = {"document": "busbw doctor", "version": 1, "busbw": "1", "began": "now"}
    told = _read(tmp_path, {**document, "checks": [{**check, "recordings": [kept]}]})
    assert told.code == 1
    assert f"\nnot as expected: 1\n- recording: jax.1M: {said}" in told.out


@pytest.mark.exhaustive
@pytest.mark.framework("jax")
def test_the_recording_of_a_real_profiler_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "machine.json"
    asked = ["--device=cpu", "--frameworks=jax", "--checks=device"]
    answer = asked_here("doctor", *asked, "-o", path)
    assert "recording: jax.all_reduce.psum.float32.64M: " in answer.out
    assert " all_reduce on 4 ranks, " in answer.out
    (kept,) = json.loads(path.read_text())["checks"][0]["recordings"]
    assert len(kept["content"]) < 1_400_000
    assert variables.RECORDINGS not in os.environ


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--device=tpux"], "argument --device: 'tpux'; did you mean 'tpu'? accepted are auto"),
        (["--frameworks=jaks"], "argument --frameworks: 'jaks'; accepted are jax"),
        (["--checks=clocks"], "argument --checks: 'clocks'; accepted are collectives, dtypes, "),
        (["--checks="], "argument --checks: it is given empty, as by a variable"),
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


def test_a_device_that_is_not_here_is_said_once(examine: Examine) -> None:
    answer = examine({}, "--checks=host,dtypes", "--device=tpu")
    assert answer.code == 1
    assert answer.out.count("no TPU") == 3
    assert "not as expected: 1\n- host, dtypes: " in answer.out
