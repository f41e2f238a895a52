"""Asynchronous collectives whose parts lie in different computations, in forms made by hand."""

from __future__ import annotations

import pytest

from busbw.extensions.program.worker_inventory import collectives_in_hlo

HEAD = "HloModule m, is_scheduled=true, num_partitions=8\n\n"
GROUPS = "channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true"
START = "((f32[8]), f32[64]) all-gather-start({}), dimensions={{0}}, " + GROUPS
DONE = "f32[64] all-gather-done({})"
GATHER = "f32[64] all-gather({}), dimensions={{0}}, " + GROUPS
WORK = "%work = f32[8] multiply(%p, %p)"
PAIR = "(f32[8], f32[8])"
# Scopes that the user named are no attributes.
TURNS = (
    ', metadata={op_name="jit(f)/body=mlp/calls=main"}'
    ', backend_config={"known_trip_count":{"n":"COUNT"}}'
)

# What an asynchronous collective of a TPU is made of.
PART = GATHER.format("%p") + ', frontend_attributes={chain_id="0"}'
FUSIONS = {
    "begin": (
        "%p = f32[8] parameter(0)",
        f"%g = {PART}",
        'ROOT %c = (f32[8], f32[64]) custom-call(%g), custom_call_target="AsyncCollectiveStart"',
    ),
    "go_on": (
        "%p = f32[8] parameter(0)",
        f"%g = {PART}",
        f"ROOT %t = {PAIR} tuple(%p, %g)",
    ),
    "end": (
        "%p = f32[8] parameter(0)",
        f"%g = {PART}",
        'ROOT %c = f32[64] custom-call(%p, %g), custom_call_target="AsyncCollectiveDone"',
    ),
}


def _fusion(name: str, operand: str) -> str:
    return f"{PAIR} fusion({operand}), kind=kCustom, calls=%{name}"


def _part(number: int, argument: str) -> str:
    return f"f32[8] get-tuple-element({argument}), index={number}"


def _runs(main: tuple[str, ...], **computations: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """Return the kind, the number of runs and of hiding operations of each collective."""
    text = HEAD
    for name, lines in {**computations, "main": main}.items():
        body = "\n".join(f"  {line}" for line in lines)
        text += f"{'ENTRY ' * (name == 'main')}%{name} (p: f32[8]) -> f32[8] {{\n{body}\n}}\n\n"
    uses = collectives_in_hlo(text)
    return [(use.kind, use.times_text, use.hidden_by) for use in uses]


def _loop(operands: str, count: int | None) -> tuple[str, ...]:
    turns = "" if count is None else TURNS.replace("COUNT", str(count))
    return (
        f"%t = {PAIR} tuple({operands})",
        f"%l = {PAIR} while(%t), condition=%c, body=%body{turns}",
    )


@pytest.mark.parametrize("count", [5, None])
def test_a_collective_that_starts_before_a_loop_and_ends_in_the_loop_runs_once(
    count: int | None,
) -> None:
    body = (
        f"%q = {PAIR} parameter(0)",
        f"%s = {_part(1, '%q')}",
        WORK,
        f"%d = {DONE.format('%s')}",
        f"ROOT %t = {PAIR} tuple(%p, %p)",
    )
    lines = (f"%s = {START.format('%p')}", *_loop("%p, %s", count))
    assert _runs(lines, body=body) == [("all_gather", "1 per step", 1)]


@pytest.mark.parametrize("count", [0, 3, None])
def test_a_collective_that_starts_before_a_loop_and_ends_after_the_loop_runs_once(
    count: int | None,
) -> None:
    body = (f"%q = {PAIR} parameter(0)", f"ROOT %t = {PAIR} copy(%q)")
    end = (f"%e = {_part(1, '%l')}", f"ROOT %d = {DONE.format('%e')}")
    lines = (f"%s = {START.format('%p')}", *_loop("%p, %s", count), *end)
    assert _runs(lines, body=body) == [("all_gather", "1 per step", 1)]


def test_a_collective_that_a_loop_starts_for_its_next_turn_runs_once_more_than_the_loop() -> None:
    body = (
        f"%q = {PAIR} parameter(0)",
        f"%s = {_part(1, '%q')}",
        WORK,
        f"%d = {DONE.format('%s')}",
        f"%n = {START.format('%d')}",
        WORK,
        WORK,
        f"ROOT %t = {PAIR} tuple(%p, %n)",
    )
    before = (f"%s = {START.format('%p')}", WORK, WORK)
    end = (f"%e = {_part(1, '%l')}", f"ROOT %d = {DONE.format('%e')}")
    lines = (*before, *_loop("%p, %s", 5), *end)
    # Another turn waits for those of a turn, which counts as one operation.
    assert _runs(lines, body=body) == [("all_gather", "6 per step", 1)]


def test_a_collective_that_starts_before_branches_and_ends_in_each_branch_runs_once() -> None:
    at_once = ("%p = f32[8] parameter(0)", f"ROOT %d = {DONE.format('%p')}")
    later = (at_once[0], WORK, at_once[1])
    lines = (
        f"%s = {START.format('%p')}",
        WORK,
        "ROOT %x = f32[64] conditional(%p, %s, %s), branch_computations={%later, %at_once}",
    )
    assert _runs(lines, later=later, at_once=at_once) == [("all_gather", "1 per step", 1)]


def test_a_collective_that_starts_in_a_branch_and_ends_after_it_runs_at_most_once() -> None:
    starts = ("%p = f32[8] parameter(0)", f"ROOT %s = {START.format('%p')}")
    sums = ("%p = f32[8] parameter(0)", f"ROOT %r = f32[64] all-reduce(%p), {GROUPS}")
    lines = (
        "%x = f32[64] conditional(%p, %p, %p), branch_computations={%starts, %sums}",
        WORK,
        f"ROOT %d = {DONE.format('%x')}",
    )
    assert _runs(lines, starts=starts, sums=sums) == [
        ("all_gather", "at most 1 per step", 1),
        ("all_reduce", "at most 1 per step", 0),
    ]


def test_two_asynchronous_collectives_in_nested_tuples_have_separate_ends() -> None:
    lines = (
        f"%s1 = {START.format('%p')}",
        f"%s2 = {START.format('%p')}",
        f"%t1 = {PAIR} tuple(%p, %s1)",
        f"%t0 = ({PAIR}, f32[8]) tuple(%t1, %s2)",
        f"%t = ({PAIR}, f32[8]) opt-barrier(%t0)",
        "%e2 = f32[8] get-tuple-element(%t), index=1",
        f"%d2 = {DONE.format('%e2')}",
        WORK,
        f"%e = {PAIR} get-tuple-element(%t), index=0",
        f"%e1 = {_part(1, '%e')}",
        f"ROOT %d1 = {DONE.format('%e1')}",
    )
    assert _runs(lines) == [("all_gather", "1 per step", 1), ("all_gather", "1 per step", 0)]


def test_a_computation_that_is_called_twice_starts_two_collectives() -> None:
    starts = ("%p = f32[8] parameter(0)", f"ROOT %s = {START.format('%p')}")
    lines = (
        "%a = f32[64] call(%p), to_apply=%starts",
        "%b = f32[64] call(%p), to_apply=%starts",
        WORK,
        f"%x = {DONE.format('%a')}",
        f"ROOT %y = {DONE.format('%b')}",
    )
    assert _runs(lines, starts=starts) == [("all_gather", "2 per step", 1)]


def test_an_asynchronous_collective_that_a_fusion_continues_in_nested_loops_runs_once() -> None:
    inner = (
        f"%q = {PAIR} parameter(0)",
        f"%s = {_part(1, '%q')}",
        f"%f = {_fusion('go_on', '%s')}",
        f"%r = {_part(0, '%f')}",
        f"ROOT %t = {PAIR} tuple(%p, %r)",
    )
    body = (
        f"%q = {PAIR} parameter(0)",
        f"ROOT %l = {PAIR} while(%q), condition=%c, body=%inner{TURNS.replace('COUNT', '4')}",
    )
    begin = (f"%b = {_fusion('begin', '%p')}", f"%s = {_part(0, '%b')}")
    end = (f"%e = {_part(1, '%l')}", f"ROOT %d = {_fusion('end', '%e')}")
    lines = (*begin, *_loop("%p, %s", 3), *end)
    assert _runs(lines, **FUSIONS, inner=inner, body=body) == [("all_gather", "1 per step", 1)]


def test_each_of_two_asynchronous_collectives_that_a_loop_swaps_in_a_tuple_runs_once() -> None:
    body = (
        f"%q = {PAIR} parameter(0)",
        f"%x = {_part(0, '%q')}",
        f"%y = {_part(1, '%q')}",
        f"%f = {_fusion('go_on', '%y')}",
        f"%r = {_part(0, '%f')}",
        f"ROOT %t = {PAIR} tuple(%r, %x)",
    )
    begin = (f"%a = {_fusion('begin', '%p')}", f"%b = {_fusion('begin', '%p')}")
    end = (
        f"%e = {_part(0, '%l')}",
        f"%g = {_part(1, '%l')}",
        f"%d = {_fusion('end', '%e')}",
        f"ROOT %h = {_fusion('end', '%g')}",
    )
    lines = (*begin, *_loop("%a, %b", 4), *end)
    assert _runs(lines, **FUSIONS, body=body) == [("all_gather", "2 per step", 1)]


def test_a_fusion_with_a_synchronous_and_an_asynchronous_collective_counts_as_both() -> None:
    both = (*FUSIONS["go_on"][:2], f"%z = f32[8] all-reduce(%w), {GROUPS}", FUSIONS["go_on"][2])
    lines = (
        f"%b = {_fusion('begin', '%p')}",
        f"%s = {_part(0, '%b')}",
        f"%f = {_fusion('both', '%s')}",
        f"%e = {_part(1, '%f')}",
        f"ROOT %d = {_fusion('end', '%e')}",
    )
    assert _runs(lines, **FUSIONS, both=both) == [
        ("all_gather", "1 per step", 1),
        ("all_reduce", "1 per step", 0),
    ]


@pytest.mark.parametrize(
    ("lines", "runs"),
    [
        ((f"%d = {DONE.format('%nowhere')}",), []),
        (
            (f"%s = {START.format('%p')}", WORK, *(f"%d = {DONE.format('%s')}",) * 2),
            [("all_gather", "1 per step", 1)],
        ),
    ],
    ids=["no start", "two ends"],
)
def test_an_asynchronous_collective_without_a_start_or_with_two_ends_is_counted_by_its_starts(
    lines: tuple[str, ...], runs: list[tuple[str, str, int]]
) -> None:
    assert _runs(lines) == runs


def test_a_chain_of_60_computations_that_each_call_the_next_twice_is_read_quickly() -> None:
    levels = {
        f"c{level}": (
            "%p = f32[8] parameter(0)",
            "%q = f32[8] parameter(1)",
            f"%s = {START.format('%z')}",
            f"%u = f32[8] call(%s, %q), to_apply=%c{level + 1}",
            f"%v = f32[8] call(%q, %s), to_apply=%c{level + 1}",
            f"ROOT %t = {PAIR} tuple(%u, %v)",
        )
        for level in range(60)
    }
    calls = ("%x = f32[8] call(%p, %p), to_apply=%c0",)
    assert _runs(calls, **levels) == [("all_gather", "1000000000000000 per step", 1)]
