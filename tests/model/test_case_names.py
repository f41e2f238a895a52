"""What names a case, a launch, a way of measuring: each text is made and read in one place."""

from __future__ import annotations

import pytest

from busbw import wire
from busbw.model.case import CaseKey
from busbw.model.launch import LaunchId
from busbw.model.machine import Protocol
from busbw.model.words import Clock
from tests import build

PROTOCOLS = {
    "host/chain2-two-buffers/hugepages": Protocol(
        clock=Clock.HOST, program="chain2-two-buffers", allocator="hugepages"
    ),
    "device/fake": Protocol(clock=Clock.DEVICE, program="fake"),
    "dispatch": Protocol(clock=Clock.DISPATCH),
    "host/a/b/c": Protocol(clock=Clock.HOST, program="a/b", allocator="c"),
}
LAUNCHES = {
    "": LaunchId(),
    "probe": LaunchId(name="probe"),
    "probe.again": LaunchId(name="probe.again"),
    "compile-3": LaunchId(name="compile-3"),
    "2.jax": LaunchId(pass_number=2, framework="jax"),
    "2.jax.3": LaunchId(pass_number=2, framework="jax", attempt=3),
    "1.jax.reference": LaunchId(pass_number=1, framework="jax", part="reference"),
    "1.jax.candidate.2.again": LaunchId(
        pass_number=1, framework="jax", part="candidate", attempt=2, is_again=True
    ),
    "1.tensorflow.mirrored": LaunchId(pass_number=1, framework="tensorflow", part="mirrored"),
    "1.tensorflow.mirrored.worker0": LaunchId(
        pass_number=1, framework="tensorflow", part="mirrored", member="worker0"
    ),
    # Of another form, such as somebody may write: it is kept as it is.
    "1.jax.01": LaunchId(name="1.jax.01"),
    "1..x": LaunchId(pass_number=1, framework="", part="x"),
}


@pytest.mark.parametrize("text", PROTOCOLS)
def test_a_protocol_is_its_text_and_back(text: str) -> None:
    assert Protocol.parse(text) == PROTOCOLS[text]
    assert PROTOCOLS[text].text == str(PROTOCOLS[text]) == text


@pytest.mark.parametrize("text", ["junk/fake", "", "hosts/chain2", "/host"])
def test_a_protocol_without_a_clock_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="expected a clock first, one of host, dispatch, device"):
        Protocol.parse(text)


@pytest.mark.parametrize("text", LAUNCHES)
def test_a_launch_is_its_text_and_back(text: str) -> None:
    assert LaunchId.parse(text) == LAUNCHES[text]
    assert LAUNCHES[text].text == str(LAUNCHES[text]) == text


def test_the_launch_in_the_place_of_another_and_the_members_of_a_group_are_named_after_it() -> None:
    launch = LaunchId(pass_number=1, framework="jax")
    assert launch.again.text == "1.jax.again"
    assert launch.of_member("ps0").text == "1.jax.ps0"
    assert LaunchId(name="probe").again.text == "probe.again"


def test_values_with_a_text_stand_as_that_in_json_and_are_refused_with_their_place() -> None:
    run = build.run(launch="2.jax.reference")
    document = wire.to_json(run)
    assert document["launch"] == "2.jax.reference"
    assert wire.from_json(type(run), document) == run
    case = wire.to_json(build.case())
    assert case["protocol"] == "host/chain2"
    with pytest.raises(wire.WireError, match=r"^Case.protocol: expected a clock first"):
        wire.from_json(type(build.case()), {**case, "protocol": "junk"})
    with pytest.raises(wire.WireError, match=r"^Case.protocol: expected a string, got 3"):
        wire.from_json(type(build.case()), {**case, "protocol": 3})


def test_a_case_has_one_key_for_files_tables_and_groups() -> None:
    key = build.case(axes="x", reduce_op="max", dtype="float16").key
    assert key.name == "jax.all_reduce.psum.float16.4K"
    assert key.file_name == "jax.all_reduce.psum.json"
    assert key.line_key == ("float16", "max", "in_place", "x", 4096)
    assert key.group_name == "jax all_reduce (psum), max, float16, along x"
    assert key.family.payload_bytes == 0 and key.family.file_name == key.file_name


@pytest.mark.parametrize("step", ["", "dense", "cnn"])
def test_the_name_of_a_file_says_what_all_its_cases_share(step: str) -> None:
    key = build.case(step=step).key
    found = CaseKey.of_file(key.file_name)
    assert found == CaseKey(framework="jax", workload=key.workload, strategy="psum")
    assert found.file_name == key.file_name


@pytest.mark.parametrize("name", ["notes.json", "a.b.json", "..json", "a.b.c.d.e.json"])
def test_a_file_of_another_name_says_nothing(name: str) -> None:
    assert CaseKey.of_file(name) is None
