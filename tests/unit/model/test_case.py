"""Cases, Specs and their names."""

from __future__ import annotations

import pytest

from busbw.model.launch import Injection, LaunchId
from busbw.model.machine import Protocol
from busbw.model.words import MIB, Clock
from tests.helpers import build


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "jax-default-float32-4K"),
        ({"collective": "all_gather"}, "jax-all_gather-default-float32-4K"),
        ({"collective": "permute", "reduce_op": "none"}, "jax-permute-default-float32-4K"),
        ({"reduce_op": "max"}, "jax-max-default-float32-4K"),
        ({"placement": "out_of_place"}, "jax-out_of_place-default-float32-4K"),
        ({"clock": "device"}, "jax-device-default-float32-4K"),
        ({"mesh": "2x4"}, "jax-2x4-default-float32-4K"),
        ({"mesh": "2x4", "axes": "y"}, "jax-2x4-y-default-float32-4K"),
        ({"ranks": 8}, "jax-default-float32-4K"),
    ],
)
def test_the_id_of_a_case_leaves_out_options_that_have_their_default_values(
    changes: dict[str, object], name: str
) -> None:
    assert build.spec(**changes).id == name


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "jax all_reduce (psum)"),
        ({"reduce_op": "max"}, "jax all_reduce (psum), max"),
        ({"reduce_op": "none"}, "jax all_reduce (psum)"),
        ({"dtype": "int32"}, "jax all_reduce (psum), int32"),
        ({"placement": "out_of_place"}, "jax all_reduce (psum), out of place"),
        ({"mesh": "2x2", "axes": "y"}, "jax all_reduce (psum), along y"),
    ],
)
def test_the_group_name_of_a_case_is_the_same_for_all_payloads(
    changes: dict[str, object], name: str
) -> None:
    assert build.case(**changes).family_name == name
    assert build.case(**changes, payload_bytes=7).family_name == name


@pytest.mark.parametrize(
    ("injection", "text"),
    [
        (Injection(share=0.05), "delay:5%"),
        (Injection(share=0.125, payloads=(MIB,)), "delay:12.5%@1M"),
        (
            Injection(share=0.1, payloads=(4096, 2 * MIB)),
            "delay:10%@4K+2M",
        ),
        (Injection(limit_bytes=512 * MIB), "memory:512M"),
    ],
)
def test_the_text_of_an_injection_equals_the_value_of_the_option_inject(
    injection: Injection, text: str
) -> None:
    assert injection.text == text


TEXTS: dict[str, Protocol | LaunchId] = {
    "host/chain2-two-buffers/hugepages": Protocol(
        clock=Clock.HOST, program="chain2-two-buffers", allocator="hugepages"
    ),
    "device/fake": Protocol(clock=Clock.DEVICE, program="fake"),
    "dispatch": Protocol(clock=Clock.DISPATCH),
    "host/a/b/c": Protocol(clock=Clock.HOST, program="a/b", allocator="c"),
    "": LaunchId(),
    "probe": LaunchId(name="probe"),
    "probe.again": LaunchId(name="probe.again"),
    "compile-3": LaunchId(name="compile-3"),
    "2.jax": LaunchId(round_number=2, framework="jax"),
    "2.jax.3": LaunchId(round_number=2, framework="jax", attempt=3),
    "1.jax.reference": LaunchId(round_number=1, framework="jax", side="reference"),
    "1.jax.candidate.2.again": LaunchId(
        round_number=1, framework="jax", side="candidate", attempt=2, is_replacement=True
    ),
    "1.tensorflow.mirrored": LaunchId(round_number=1, framework="tensorflow", side="mirrored"),
    "1.tensorflow.mirrored.worker0": LaunchId(
        round_number=1, framework="tensorflow", side="mirrored", member="worker0"
    ),
    # Of another form, such as somebody may write: it is kept as it is.
    "1.jax.01": LaunchId(name="1.jax.01"),
    "1..x": LaunchId(round_number=1, framework="", side="x"),
}


@pytest.mark.parametrize(("text", "value"), TEXTS.items())
def test_the_text_of_a_protocol_or_a_launch_id_is_unchanged_after_it_is_parsed_and_written(
    text: str, value: Protocol | LaunchId
) -> None:
    assert type(value).parse(text) == value
    assert str(value) == text


@pytest.mark.parametrize("text", ["junk/fake", "", "hosts/chain2", "/host"])
def test_the_refusal_of_a_protocol_without_a_clock_lists_all_clocks(text: str) -> None:
    with pytest.raises(ValueError, match="expected a clock first, one of host, dispatch, device"):
        Protocol.parse(text)
