"""Damaged or hostile texts of optimized HLO are read, or refused with a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.extensions.program.worker import collectives_in_hlo
from busbw.extensions.program.worker_values import CollectiveUse, ProgramError
from tests.helpers.damage import bounded, contents, fuzzed
from tests.unit.extensions.program.recorded import dump
from tests.unit.extensions.program.test_inventory import HEAD
from tests.unit.extensions.program.test_trips import FUSED

_MESHES: tuple[dict[str, int], ...] = ({}, {"data": 8}, {"data": 4, "model": 2}, {"data": 10**6})
_LOOPED = dump("fsdp.v5e_2x4")
_TEXTS = tuple(
    text.encode() for text in (dump("fsdp.h100"), dump("experts.cpu"), _LOOPED, FUSED, HEAD)
)
_WORDS = (
    *("%a", "while", "fusion", "all-reduce", "all-gather-start", "calls=%a", "body=%a", "f32[1,2]"),
    *(
        "(f32[], s32[])",
        "constant(",
        "9" * 5000,
        "{{0,1},{2,3}}",
        "[2,4]<=[8]",
        "index=7",
        "{",
        "}",
    ),
    *(
        "ENTRY %m (p: f32[]) -> f32[] {",
        "replica_groups=",
        "source_target_pairs={{0,1}}",
        "\n",
        ",",
    ),
)


def _read(text: str, mesh: dict[str, int]) -> tuple[CollectiveUse, ...]:
    with bounded():
        try:
            program = collectives_in_hlo(text, mesh)
        except ProgramError as error:
            assert str(error)
            return ()
    for use in program.uses:
        assert use.name and use.groups_text and use.times_text
        assert 0 <= use.payload_bytes <= 10**15 and use.hidden_by >= 0
    assert all(0 <= size <= 10**15 for size in program.arguments.values())
    return program.uses


@fuzzed
@given(content=contents(*_TEXTS), mesh=st.sampled_from(_MESHES))
def test_any_damaged_hlo_text_is_read_or_refused_with_a_message(
    content: bytes, mesh: dict[str, int]
) -> None:
    _read(content.decode(errors="replace"), mesh)


@fuzzed
@given(
    changes=st.lists(
        st.tuples(
            st.floats(0, 1), st.floats(0, 1), st.sampled_from(("swap", "copy", "drop", "put"))
        ),
        min_size=1,
        max_size=8,
    ),
    words=st.lists(st.sampled_from(_WORDS), min_size=1, max_size=4),
    text=st.sampled_from((_LOOPED, FUSED)),
)
def test_hlo_with_moved_or_copied_or_missing_lines_is_read_or_refused_with_a_message(
    changes: list[tuple[float, float, str]], words: list[str], text: str
) -> None:
    lines = text.splitlines()
    for begin, end, kind in changes:
        source, to = int(begin * (len(lines) - 1)), int(end * (len(lines) - 1))
        if kind == "swap":
            lines[source], lines[to] = lines[to], lines[source]
        elif kind == "copy":
            lines.insert(source, lines[to])
        elif kind == "drop":
            del lines[source]
        else:
            parts = lines[source].split(" ")
            lines[source] = " ".join([*parts[: to % (len(parts) + 1)], *words, *parts[to % 5 :]])
        lines = lines or [""]
    _read("\n".join(lines), {"data": 8})


_NESTED = "\n".join(
    f"%c{number} (p: f32[8]) -> f32[8] {{\n  %x = f32[8]{{0}} call(%p), to_apply=%c{number + 1}\n"
    f"  %y = f32[8]{{0}} call(%p), to_apply=%c{number + 1}\n}}\n"
    for number in range(90)
)
_HOSTILE = {
    "a call tree of 2^90": _NESTED
    + "%c90 (p: f32[8]) -> f32[8] {\n  %r = f32[8]{0} all-reduce(%p), replica_groups={}\n}\n"
    + "ENTRY %m (p: f32[8]) -> f32[8] {\n  %x = f32[8]{0} call(%p), to_apply=%c0\n}\n",
    "a sum that doubles": FUSED.replace("constant(12)", "constant(99999999999)").replace(
        "%sum = s32[]{:T(128)} add(%c.1, %two)", "%sum = s32[]{:T(128)} multiply(%c.1, %c.1)"
    ),
    "a value asked for twice, 60 deep": FUSED.replace(
        "  %two = s32[]{:T(128)} constant(2)\n",
        "  %v0 = s32[] constant(0)\n"
        + "".join(f"  %v{number + 1} = s32[] add(%v{number}, %v{number})\n" for number in range(59))
        + "  %two = s32[] add(%v59, %v59)\n",
    ),
    "a line of 200,000 brackets": HEAD
    + f"ENTRY %m (p: f32[]) -> f32[] {{\n  %x = {'(' * 10**5} all-reduce({'(' * 10**5}\n}}\n",
    "groups of a billion": HEAD + "ENTRY %m (p: f32[8]) -> f32[8] {\n  %x = f32[8]{0} "
    "all-reduce(%p), replica_groups=[999999999,999999999]<=[999999999]\n}\n",
    "a million partitions": HEAD.replace("=8", "=1000000")
    + "ENTRY %m (p: f32[8]) -> f32[8] {\n  %x = f32[8]{0} all-reduce(%p), replica_groups={}\n}\n",
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_an_hlo_text_that_is_made_to_take_long_is_read_or_refused_within_five_seconds(
    name: str,
) -> None:
    for mesh in _MESHES:
        _read(_HOSTILE[name], mesh)
