"""Values to JSON and back: they stay unchanged, and invalid values are refused with their place."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest

from busbw import wire
from busbw.driver.transport import WorkerExit
from busbw.model.case import Case
from busbw.model.launch import Failure, Injection, Measurement, MeasurementPlan, Run
from busbw.model.machine import DeviceSet
from busbw.model.words import Clock, DeviceClass, OutOfMemoryDetection
from tests.helpers import build

VALUES = (
    build.case(mesh="4x4"),
    build.plan(memory_limit_bytes=2**30),
    build.run(1e-3, 1.1e-3, peak_memory_bytes=5),
    build.run(
        1e-3,
        clocks_s={"host": 1e-3, "device": 9e-4},
        dispatch_s=1e-5,
        rank_times_s=(1e-3, 2e-3),
        phases_s={"sampling": 0.2},
        compiled_memory_bytes=7,
        injected="delay:5%",
        injected_ratio=1.06,
    ),
    Injection(share=0.05),
    Injection(limit_bytes=2**30, payloads=(4096, 2**20)),
    build.key(mesh="2x4"),
    build.out_of_memory(detected=OutOfMemoryDetection.PREDICTED, needed_bytes=2, available_bytes=1),
    build.probe(
        build.device_set(),
        build.device_set(DeviceClass.TPU, mesh="2x4", clocks=(Clock.DEVICE, Clock.HOST)),
        gpu="no driver",
    ),
    build.environment(flags={"XLA_FLAGS": "--x"}, load=0.5),
    build.measurement(1e-3, failures=(build.failure(),)),
    build.baseline(1e-3, 1.1e-3),
)


@dataclass(frozen=True, kw_only=True)
class _Pair:
    ends: tuple[float, float]
    name: str = ""


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_unchanged_after_it_is_written_to_json_and_read_back(value: Any) -> None:
    line = json.dumps(wire.to_json(value))
    assert value == wire.from_json(type(value), json.loads(line))


RUN, FAILURE = wire.to_json(build.run(1.0, 2.0, 3.0)), wire.to_json(build.failure(exit_code=None))
DEVICES, MEASURED = wire.to_json(build.device_set()), wire.to_json(build.measurement(1e-3))
MEASURED["runs"][0]["proof"]["payload_copies"] = "none"


@pytest.mark.parametrize(
    ("kind", "document", "message"),
    [
        (
            MeasurementPlan,
            {"lunches": 3},
            r"MeasurementPlan\.lunches: unknown key; accepted .* launches",
        ),
        (Case, {}, r"Case\.framework: missing"),
        (Injection, {"share": "nap"}, r"Injection\.share: expected a number, got 'nap'"),
        (DeviceSet, DEVICES | {"device": "x"}, "device: expected one of cpu, gpu, tpu, got 'x'"),
        *(
            (Failure, FAILURE | {"kind": word}, r"Failure\.kind: expected one of UNAVAILABLE, ")
            for word in (None, 1, ["KILLED"], {"KILLED": 1})
        ),
        (Failure, FAILURE | {"message": None}, r"Failure\.message: expected a string, got None"),
        (Run, RUN | {"samples_s": [1.0, "x"]}, r"Run\.samples_s\[1\]: expected a number, got 'x'"),
        (Run, RUN | {"versions": {"jax": 1}}, r"Run\.versions\.jax: expected a string, got 1"),
        (Run, RUN | {"versions": {"\ud800": "1"}}, r"Run\.versions.*expected text"),
        (Measurement, MEASURED, r"Measurement\.runs\[0\]\.proof\.payload_copies: "),
        (_Pair, {"ends": [1, 2, 3]}, r"_Pair\.ends: expected a list of 2, got 3 items"),
        *(
            (
                MeasurementPlan,
                {"seed": number},
                r"MeasurementPlan\.seed: expected a whole number of 64 bits",
            )
            for number in (2**63, -(2**63) - 1, 10**4000)
        ),
    ],
    ids=itertools.count(),
)
def test_a_wrong_value_in_json_is_refused_with_its_place_and_the_expected_value(
    kind: type[Any], document: Any, message: str
) -> None:
    with pytest.raises(wire.WireError, match=message):
        wire.from_json(kind, document)


def test_a_missing_key_in_json_gets_its_default_value() -> None:
    assert MeasurementPlan() == wire.from_json(MeasurementPlan, {})
    assert wire.from_json(Failure, FAILURE).exit_code is None
    assert _Pair(ends=(1.0, 2.0)) == wire.from_json(_Pair, {"ends": [1, 2]})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("launch", 1, "expected a string, got 1"),
        ("launch", None, "expected a string, got None"),
        ("iterations", "8", "expected a whole number, got '8'"),
        ("iterations", 8.0, "expected a whole number, got 8.0"),
        ("iterations", True, "expected a whole number, got True"),
        ("compile_s", "soon", "expected a number, got 'soon'"),
        ("compile_s", False, "expected a number, got False"),
        ("compile_s", float("nan"), "expected a finite number, got nan"),
        ("compile_s", float("inf"), "expected a finite number, got inf"),
        pytest.param("compile_s", 10**400, "expected a number, got 1000", id="compile_s-huge"),
        ("samples_s", 1.0, "expected a list, got 1.0"),
        ("versions", ["jax"], "expected an object, got"),
        ("proof", "psum", "expected an object, got 'psum'"),
    ],
)
def test_a_value_of_a_wrong_type_in_json_is_refused_with_the_expected_type(
    key: str, value: Any, words: str
) -> None:
    document = RUN | {key: value}
    with pytest.raises(wire.WireError, match=rf"Run\.{key}: {words}"):
        wire.from_json(Run, document)


def test_a_whole_number_in_json_is_read_as_a_number() -> None:
    samples_s = wire.from_json(Run, RUN | {"samples_s": [1, 2]}).samples_s
    assert [repr(sample) for sample in samples_s] == ["1.0", "2.0"]


def test_an_error_shows_only_a_part_of_a_long_wrong_value() -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.from_json(MeasurementPlan, {"launches": "x" * 5000})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", r"1:1: not JSON"),
        (b'{"a": 1,}', r"1:\d+: not JSON"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b"ab\xff", r"byte 2: not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"[1" + b"0" * 5000 + b"]", "more than 4300 digits"),
        (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' occurs twice"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_text_that_is_no_json_is_refused_with_its_place(content: bytes, says: str) -> None:
    with pytest.raises(wire.WireError, match=says):
        wire.parse_json(content)


def test_json_with_half_a_surrogate_pair_is_refused_with_a_message_that_can_be_encoded() -> None:
    for document in ({"message": "\ud800"}, {"message\udfff": ""}):
        with pytest.raises(wire.WireError) as caught:
            wire.from_json(Failure, {**wire.to_json(build.failure()), **document})
        assert str(caught.value).encode()


def test_control_characters_in_a_text_from_json_are_read_as_escapes() -> None:
    over = wire.to_json(WorkerExit(exit_code=0, log="a\n\tb\x07\x1b[2J\u202e \N{SNOWMAN}"))
    assert wire.from_json(WorkerExit, over, "exit").log == "a\n\tb\\x07\\x1b[2J\\u202e \N{SNOWMAN}"
    with pytest.raises(wire.WireError, match=r"exit\.kin\\x1bd: unknown key"):
        wire.from_json(WorkerExit, {"kin\x1bd": 1}, "exit")


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("::error::a", ": :error::a"),
        ("a\n \u3000::warning::b\n", "a\n \u3000: :warning::b\n"),
        ("a ##[error]b", "a # #[error]b"),
        ("a::b ::c # [d] ##", "a::b ::c # [d] ##"),
    ],
)
def test_workflow_commands_of_github_in_a_text_are_broken_by_a_space(
    text: str, harmless: str
) -> None:
    assert wire.escape_workflow_commands(text) == harmless


def test_a_deeply_nested_wrong_value_is_refused_without_a_recursion_error() -> None:
    document: Any = []
    for _ in range(100_000):
        document = [document]
    with pytest.raises(
        wire.WireError, match=r"MeasurementPlan\.seed: expected a whole number, got "
    ):
        wire.from_json(MeasurementPlan, {"seed": document})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n<<<<<<< HEAD\n  1\n=======\n>>>>>>> theirs\n}", "2:1: a Git conflict marker, '<<<"),
        ("{\n||||||| base\n>>>>>>> theirs\n}", "2:1: a Git conflict marker, '|||||||"),
        ("{\n=======\n>>>>>>> a\x1b[2J\n}", "2:1: a Git conflict marker, '======='"),
        ("version https://git-lfs.github.com/spec/v1\noid", "1:1: a Git LFS pointer, not the file"),
        ("{\n  <<<<<<< HEAD\n}", "2:3: not JSON"),
        ("{\n<<<<<<<<<<<<< a row\n}", "2:1: not JSON"),
    ],
)
def test_conflict_markers_and_lfs_pointers_of_git_in_json_are_named_with_their_line(
    text: str, message: str
) -> None:
    with pytest.raises(wire.WireError) as refused:
        wire.parse_json(text.encode())
    assert str(refused.value).startswith(message)
    assert str(refused.value).isprintable()


def test_a_conflict_marker_inside_a_text_value_of_json_is_read_as_part_of_the_value() -> None:
    assert wire.parse_json('{"a": "<<<<<<< HEAD"}') == {"a": "<<<<<<< HEAD"}
