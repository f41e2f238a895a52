"""The number of turns of a loop in HLO as XLA prints it."""

from __future__ import annotations

import pytest

from busbw.extensions.program.worker_flow import TurnCounter
from busbw.worker.backends import hlo

# Counter, limit and step are the arguments; `more` stands in the condition.
LOOP = """\
%body (p: (s32[], f32[8], s32[])) -> (s32[], f32[8], s32[]) {{
  %p = (s32[], f32[8], s32[]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[8]{{0}} get-tuple-element(%p), index=1
  %n = s32[] get-tuple-element(%p), index=2
  %one = s32[] constant({step})
  %next = s32[] {op}(%i, %one)
  ROOT %t = (s32[], f32[8], s32[]) tuple(%next, %x, %n)
}}

%more (p.1: (s32[], f32[8], s32[])) -> pred[] {{
  %p.1 = (s32[], f32[8], s32[]) parameter(0)
  %i.1 = s32[] get-tuple-element(%p.1), index=0
  %n.1 = s32[] get-tuple-element(%p.1), index=2
  ROOT %lt = pred[] compare(%i.1, %n.1), direction={direction}
}}

ENTRY %main (a: f32[8], n: s32[]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  %given = s32[] parameter(1)
  %zero = s32[] constant({first})
  %limit = s32[] constant({limit})
  %copy = s32[] copy(%zero)
  %start = (s32[], f32[8], s32[]) tuple(%copy, %a, %{last})
  %loop = (s32[], f32[8], s32[]) while(%start), condition=%more, body=%body{known}
  ROOT %out = f32[8]{{0}} get-tuple-element(%loop), index=1
}}
"""

# As libtpu prints it: the condition is a fusion, the limit within it.
FUSED = """\
%compared (c: s32[]) -> pred[] {
  %c = s32[]{:T(128)} parameter(0)
  %limit = s32[]{:T(128)} constant(12)
  ROOT %lt = pred[]{:T(512)} compare(%c, %limit), direction=LT
}

%more (p: (s32[], f32[8])) -> pred[] {
  %p = (s32[]{:T(128)}, f32[8]{0}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%p), index=0
  ROOT %f = pred[]{:T(512)} fusion(%i), kind=kLoop, calls=%compared
}

%counted (c.1: s32[], x.1: f32[8]) -> (s32[], f32[8]) {
  %c.1 = s32[]{:T(128)} parameter(0)
  %x.1 = f32[8]{0} parameter(1)
  %two = s32[]{:T(128)} constant(2)
  %sum = s32[]{:T(128)} add(%c.1, %two)
  ROOT %both = (s32[]{:T(128)}, f32[8]{0}) tuple(%sum, %x.1)
}

%body (p.2: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p.2 = (s32[]{:T(128)}, f32[8]{0}) parameter(0)
  %i.2 = s32[]{:T(128)} get-tuple-element(%p.2), index=0
  %x.2 = f32[8]{0} get-tuple-element(%p.2), index=1
  ROOT %f.2 = (s32[]{:T(128)}, f32[8]{0}) fusion(%i.2, %x.2), kind=kLoop, calls=%counted
}

ENTRY %main (a: f32[8]) -> (s32[], f32[8]) {
  %a = f32[8]{0} parameter(0)
  %zero = s32[]{:T(128)} constant(0)
  %start = (s32[]{:T(128)}, f32[8]{0}) tuple(%zero, %a)
  ROOT %loop = (s32[]{:T(128)}, f32[8]{0}) while(%start), condition=%more, body=%body
}
"""


def _loop(**other: object) -> str:
    usual = {
        "op": "add",
        "first": 0,
        "limit": 7,
        "step": 1,
        "direction": "LT",
        "last": "limit",
        "known": "",
    }
    return LOOP.format(**{**usual, **other})


KNOWN = ', backend_config={"known_trip_count":{"n":"5"},"known_init_step":{"init":"0"}}'


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        (_loop(), 7),
        (_loop(direction="LE"), 8),
        (_loop(first=3), 4),
        (_loop(step=3), 3),
        (_loop(first=9, limit=2, step=-2, direction="GT"), 4),
        (_loop(direction="NE"), 7),
        (_loop(first=7), 0),
        (_loop(limit=3000), 3000),
        (_loop(op="divide", first=64, limit=0, step=2, direction="GT"), 7),
        (_loop(op="shift-right-logical", first=64, limit=0, direction="GT"), 7),
        # Comments of XLA in the shape of a long tuple.
        (_loop().replace("s32[]) parameter(0)", "/*index=5*/s32[]) parameter(0)"), 7),
        # The compiler wrote how often.
        (_loop(known=KNOWN, last="given"), 5),
        (FUSED, 6),
        # It depends on data, or never ends.
        (_loop(last="given"), None),
        (_loop(last="nowhere"), None),
        (_loop(step=0), None),
        (_loop(op="divide", first=-8, limit=-1, step=0, direction="LT"), None),
        (_loop(op="shift-right-logical", first=-8, step=-1), None),
        (_loop(direction="APPROXIMATELY"), None),
        (_loop(first="nan"), None),
        # A computation that calls itself.
        (FUSED.replace("kind=kLoop, calls=%compared", "kind=kLoop, calls=%more"), None),
    ],
    ids=range(21),
)
def test_the_number_of_turns_of_a_loop_is_computed_from_its_counter_and_its_condition(
    text: str, turns: int | None
) -> None:
    module = hlo.read_module(text)
    (loop,) = (line for line in module.computations[module.entry] if line.op == "while")
    assert TurnCounter(module).count_turns(module.entry, loop) == turns
