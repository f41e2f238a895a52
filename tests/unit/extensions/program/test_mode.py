"""Files of a dump: the readable ones, and the refusal of all others."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.extensions.program import mode
from busbw.extensions.program.worker_values import CollectiveUse, ProgramError

HEAD = "HloModule jit_step, is_scheduled=true, entry_computation_layout={(f32[8])->f32[8]}"
SUMMED = """

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %r = f32[8]{0} all-reduce(%p), replica_groups=GROUPS, to_apply=%add
}
"""


def _dump(folder: Path, *, head: str = "", groups: str = "{}") -> Path:
    path = folder / "module_0001.jit_step.cpu_after_optimizations.txt"
    path.write_text(HEAD + head + SUMMED.replace("GROUPS", groups))
    return path


@pytest.mark.parametrize(
    ("head", "groups", "named_ranks", "ranks"),
    [
        (", num_partitions=4", "{}", None, 4),
        (", replica_count=2, num_partitions=4", "{}", None, 8),
        (", num_partitions=4", "{}", 4, 4),
        ("", "{{0,1,2,3}}", None, 4),
        ("", "{}", 4, 4),
        (", num_partitions=0", "{}", 4, 4),
    ],
)
def test_the_number_of_ranks_of_a_dump_comes_from_the_file_or_else_from_the_session(
    tmp_path: Path, head: str, groups: str, named_ranks: int | None, ranks: int
) -> None:
    (use,) = mode.read_hlo_file(_dump(tmp_path, head=head, groups=groups), named_ranks).uses
    assert use.ranks == ranks


@pytest.mark.parametrize(
    ("head", "groups", "named_ranks", "sentence"),
    [
        ("", "{}", None, r"over all ranks, .* name the number with --ranks=N"),
        (", num_partitions=4", "{}", 8, "it is compiled for 4 ranks, expected 8"),
        ("", "{{0,1},{2,3}}", 2, "it is compiled for 4 ranks, expected 2"),
        (", num_partitions=99999999", "{}", None, "for 99999999 ranks, expected at most 65536"),
    ],
)
def test_a_dump_whose_ranks_are_unknown_or_differ_from_the_session_is_refused(
    tmp_path: Path, head: str, groups: str, named_ranks: int | None, sentence: str
) -> None:
    with pytest.raises(ProgramError, match=sentence):
        mode.read_hlo_file(_dump(tmp_path, head=head, groups=groups), named_ranks)


@pytest.mark.parametrize(
    "changed",
    [
        lambda content: content.replace(b", replica", ', note="\u2028", replica'.encode()),
        gzip.compress,
    ],
    ids=["another end of a line", "gzip"],
)
def test_a_dump_is_read_with_other_ends_of_lines_in_names_or_with_gzip_compression(
    tmp_path: Path, changed: Callable[[bytes], bytes]
) -> None:
    path = _dump(tmp_path, head=", num_partitions=4")
    (tmp_path / "other").write_bytes(changed(path.read_bytes()))
    assert mode.read_hlo_file(tmp_path / "other") == mode.read_hlo_file(path)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            "\nENTRY %main",
            "\nHloModule x\n\nENTRY %main",
            "its first line is .*; expected optimized HLO of a single program",
        ),
        (
            "is_scheduled=true",
            'frontend_attributes={note="is_scheduled=true"}',
            "its first line is .*; expected optimized HLO",
        ),
        ("num_partitions=4", 'frontend_attributes={note="num_partitions=4"}', "over all ranks"),
    ],
)
def test_a_dump_of_several_programs_or_with_its_attributes_only_in_quotes_is_refused(
    tmp_path: Path, before: str, after: str, sentence: str
) -> None:
    path = _dump(tmp_path, head=", num_partitions=4")
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises(ProgramError, match=sentence):
        mode.read_hlo_file(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Dear reader,\nhello",
        b"\x7fELF\x02",
        HEAD.encode("utf-16"),
        HEAD.replace(", is_scheduled=true", "").encode(),
    ],
    ids=["nothing", "a text", "bytes", "another encoding", "from before optimization"],
)
def test_a_file_that_is_no_optimized_hlo_is_refused_with_its_first_line(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "module_0001.jit_step.other").write_bytes(content)
    with pytest.raises(ProgramError, match=r"its first line is .*; expected optimized HLO"):
        mode.read_hlo_file(tmp_path / "module_0001.jit_step.other")


@pytest.mark.parametrize(
    ("axes", "ranks", "measured_axes", "measured_mesh"),
    [
        ("data", 4, "x", "4x2"),
        ("model", 2, "y", "4x2"),
        ("data,model", 8, "", ""),
        ("consecutive", 2, "y", "4x2"),
        ("strided", 2, "x", "2x4"),
    ],
)
def test_a_collective_of_a_program_is_measured_along_the_same_axes(
    axes: str, ranks: int, measured_axes: str, measured_mesh: str
) -> None:
    use = CollectiveUse(
        kind="all_reduce",
        dtype="float32",
        payload_bytes=4096,
        ranks=ranks,
        groups=8 // ranks,
        axes=axes,
        reduce_op="sum",
    )
    spec = mode.spec_of_collective(use, {"data": 4, "model": 2}, framework="jax", clock="default")
    assert (spec.axes, spec.mesh, spec.ranks) == (measured_axes, measured_mesh, 8)
