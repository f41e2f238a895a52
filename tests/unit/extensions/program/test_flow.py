"""Asynchronous collectives whose parts lie in different computations, in forms made by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from busbw.extensions.program.worker import collectives_in_hlo

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
    uses = collectives_in_hlo(text).uses
    return [(use.kind, use.times_text, use.hidden_by) for use in uses]


def _loop(operands: str, count: int | None) -> tuple[str, ...]:
    turns = "" if count is None else TURNS.replace("COUNT", str(count))
    return (
        f"%t = {PAIR} tuple({operands})",
        f"%l = {PAIR} while(%t), condition=%c, body=%body{turns}",
    )


P, Q = "%p = f32[8] parameter(0)", f"%q = {PAIR} parameter(0)"
BEGIN = f"%s = {START.format('%p')}"
SECOND = f"%s = {_part(1, '%q')}"
STARTS = (P, f"ROOT {BEGIN}")
AFTER_LOOP = (f"%e = {_part(1, '%l')}", f"ROOT %d = {DONE.format('%e')}")
GO_ON = (f"%f = {_fusion('go_on', '%s')}", f"%r = {_part(0, '%f')}")
ONCE = [("all_gather", "1 per step", 1)]

Lines = tuple[str, ...]
# What the main computation has, what the others have by name, and the collectives that are counted.
FLOWS: Mapping[str, tuple[Lines, Mapping[str, Lines], list[tuple[str, str, int]]]] = {
    **{
        f"starts before a loop of {count} turns and ends in it": (
            (BEGIN, *_loop("%p, %s", count)),
            {
                "body": (
                    Q,
                    SECOND,
                    WORK,
                    f"%d = {DONE.format('%s')}",
                    f"ROOT %t = {PAIR} tuple(%p, %p)",
                )
            },
            ONCE,
        )
        for count in (5, None)
    },
    **{
        f"starts before a loop of {count} turns and ends after it": (
            (BEGIN, *_loop("%p, %s", count), *AFTER_LOOP),
            {"body": (Q, f"ROOT %t = {PAIR} copy(%q)")},
            ONCE,
        )
        for count in (0, 3, None)
    },
    # Another turn waits for those of a turn, which counts as one operation.
    "is started by a loop for its next turn": (
        (BEGIN, WORK, WORK, *_loop("%p, %s", 5), *AFTER_LOOP),
        {
            "body": (
                *(Q, SECOND, WORK, f"%d = {DONE.format('%s')}", f"%n = {START.format('%d')}"),
                *(WORK, WORK, f"ROOT %t = {PAIR} tuple(%p, %n)"),
            )
        },
        [("all_gather", "6 per step", 1)],
    ),
    "starts before branches and ends in each": (
        (
            BEGIN,
            WORK,
            "ROOT %x = f32[64] conditional(%p, %s, %s), branch_computations={%later, %at_once}",
        ),
        {
            "later": (P, WORK, f"ROOT %d = {DONE.format('%p')}"),
            "at_once": (P, f"ROOT %d = {DONE.format('%p')}"),
        },
        ONCE,
    ),
    "starts in a branch and ends after it": (
        (
            "%x = f32[64] conditional(%p, %p, %p), branch_computations={%starts, %sums}",
            WORK,
            f"ROOT %d = {DONE.format('%x')}",
        ),
        {"starts": STARTS, "sums": (P, f"ROOT %r = f32[64] all-reduce(%p), {GROUPS}")},
        [("all_gather", "at most 1 per step", 1), ("all_reduce", "at most 1 per step", 0)],
    ),
    "is in a computation that is called twice": (
        (
            "%a = f32[64] call(%p), to_apply=%starts",
            "%b = f32[64] call(%p), to_apply=%starts",
            WORK,
            f"%x = {DONE.format('%a')}",
            f"ROOT %y = {DONE.format('%b')}",
        ),
        {"starts": STARTS},
        [("all_gather", "2 per step", 1)],
    ),
    "is continued by a fusion in nested loops": (
        (
            f"%b = {_fusion('begin', '%p')}",
            f"%s = {_part(0, '%b')}",
            *_loop("%p, %s", 3),
            AFTER_LOOP[0],
            f"ROOT %d = {_fusion('end', '%e')}",
        ),
        {
            **FUSIONS,
            "inner": (Q, SECOND, *GO_ON, f"ROOT %t = {PAIR} tuple(%p, %r)"),
            "body": (
                Q,
                f"ROOT %l = {PAIR} while(%q), condition=%c, body=%inner"
                + TURNS.replace("COUNT", "4"),
            ),
        },
        ONCE,
    ),
    "is one of two that a loop swaps in a tuple": (
        (
            f"%a = {_fusion('begin', '%p')}",
            f"%b = {_fusion('begin', '%p')}",
            *_loop("%a, %b", 4),
            f"%e = {_part(0, '%l')}",
            f"%g = {_part(1, '%l')}",
            f"%d = {_fusion('end', '%e')}",
            f"ROOT %h = {_fusion('end', '%g')}",
        ),
        {
            **FUSIONS,
            "body": (
                Q,
                f"%x = {_part(0, '%q')}",
                SECOND,
                *GO_ON,
                f"ROOT %t = {PAIR} tuple(%r, %x)",
            ),
        },
        [("all_gather", "2 per step", 1)],
    ),
    "is in a fusion with a synchronous one": (
        (
            f"%b = {_fusion('begin', '%p')}",
            f"%s = {_part(0, '%b')}",
            f"%f = {_fusion('both', '%s')}",
            f"%e = {_part(1, '%f')}",
            f"ROOT %d = {_fusion('end', '%e')}",
        ),
        {
            **FUSIONS,
            "both": (
                *FUSIONS["go_on"][:2],
                f"%z = f32[8] all-reduce(%w), {GROUPS}",
                FUSIONS["go_on"][2],
            ),
        },
        [("all_gather", "1 per step", 1), ("all_reduce", "1 per step", 0)],
    ),
    "has no start": ((f"%d = {DONE.format('%nowhere')}",), {}, []),
    "has two ends": ((BEGIN, WORK, *(f"%d = {DONE.format('%s')}",) * 2), {}, ONCE),
}


@pytest.mark.parametrize("name", FLOWS)
def test_an_asynchronous_collective_is_counted_by_its_starts_wherever_its_parts_lie(
    name: str,
) -> None:
    main, computations, runs = FLOWS[name]
    assert _runs(main, **computations) == runs


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
