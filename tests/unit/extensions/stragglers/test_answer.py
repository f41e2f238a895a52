"""The answer: its sentences, its table, its document, and the hosts that are left."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from busbw.extensions.stragglers.answer import Answer
from busbw.extensions.stragglers.chips import SlowChip
from busbw.extensions.stragglers.fit import Fit, Racks
from busbw.extensions.stragglers.search import Accused, Found
from busbw.extensions.stragglers.waiting import Waiting
from busbw.report.renderers import rendered

NAMES = ["a", "b", "c", "d"]
SIZE = "all-reduce 16M"
SLOW = {0: 0.0, 1: 0.0, 2: math.log(1.8), 3: 0.0}
FIT = Fit(level=-4.0, hosts=SLOW, links={(0, 1): 0.0}, spread=0.01)
HEALTHY = Found(
    accused=(),
    fits={SIZE: replace(FIT, hosts=dict.fromkeys(range(4), 0.0))},
    racks={},
    dead={},
    undecided=(),
    least={SIZE: 0.15},
    rounds=7,
    times_s={(0, 1): {SIZE: 0.02}},
)
HOST = Accused(who=(2,), quantity=SIZE, ratio=1.8, p=0.0006)
CHIP = SlowChip(what="chip 3 of host a", host="a", quantity="computing", ratio=1.12, p=0.0005)
LATE = Waiting(
    rounds=50,
    transfer_s=0.08,
    last=2,
    times=41,
    late_s=0.012,
    p=1e-9,
    waited_s=(0.012, 0.011, 0.0, 0.012),
    offset_s=0.2,
    error_s=0.0003,
)
LINK = Accused(who=(0, 3), quantity=SIZE, ratio=2.3, p=0.003, alone=2.2)


def _answer(found: Found, waited: Waiting | None = None) -> Answer:
    return Answer(found=found, names=NAMES, waited=waited)


def _said(found: Found, waited: Waiting | None = None) -> list[str]:
    return list(_answer(found, waited).sentences())


def test_of_nobody_it_is_said_what_would_have_been_named() -> None:
    assert _said(HEALTHY) == [
        "nobody is slow: a loss of 15 % in all-reduce 16M would have been named; a healthy cluster "
        "is accused once in 100 times at most"
    ]
    assert not _answer(HEALTHY).is_anybody
    assert _answer(HEALTHY).opening == "4 hosts, 7 rounds"


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            replace(HEALTHY, accused=(HOST,)),
            "host c: all-reduce 16M takes 1.80 x as long (p <= 0.0006)",
        ),
        (
            replace(HEALTHY, accused=(LINK,)),
            "link a - d: 0.43 of the others' speed in all-reduce 16M (p <= 0.003); 2.20 x as long "
            "alone",
        ),
        (
            replace(HEALTHY, accused=(replace(LINK, alone=1.05),)),
            "link a - d: 0.43 of the others' speed in all-reduce 16M (p <= 0.003); 1.05 x as long "
            "alone: what it shares with others is slow",
        ),
        (
            replace(HEALTHY, dead={1: "it hangs"}),
            "host b: no answer, with several partners: it hangs",
        ),
        (
            replace(HEALTHY, racks={SIZE: Racks(hosts=((0, 1), (2, 3)), ratio=2.0, alone=1.9)}),
            "a, b | c, d: between them all-reduce 16M takes 2.00 x as long as within, 1.90 x while "
            "nobody else is measured: they are far from each other",
        ),
    ],
)
def test_who_is_named_is_named_with_how_much_and_how_sure(found: Found, sentence: str) -> None:
    assert _said(found) == [sentence]
    assert _answer(found).is_anybody


def test_a_shared_switch_is_told_and_is_nobody_s_fault() -> None:
    racks = Racks(hosts=((0, 1), (2, 3)), ratio=2.0, alone=1.02)
    found = replace(HEALTHY, racks={SIZE: racks})
    assert _said(found)[0].endswith(
        "1.02 x while nobody else is measured: they share what connects them"
    )
    assert _said(found)[1].startswith("nobody is slow: ")
    assert not _answer(found).is_anybody


def test_one_that_was_named_in_every_answer_since_is_named_with_the_first_of_them() -> None:
    def night(day: int, *named: str) -> dict[str, object]:
        return {"date": f"2026-11-0{day}", "accused": [{"hosts": list(named)}]}

    found = replace(HEALTHY, accused=(HOST,))
    nights = [night(1, "c"), night(2), night(3, "c"), night(4, "c")]
    (said,) = replace(_answer(found), earlier=nights).sentences()
    assert said.endswith("(p <= 0.0006); named since 2026-11-03")
    (said,) = replace(_answer(found), earlier=[*nights, night(5, "c", "d")]).sentences()
    assert said.endswith("(p <= 0.0006)")


def test_the_metrics_have_who_is_named_and_every_time() -> None:
    pytest.importorskip("prometheus_client")
    hosts = replace(HEALTHY, accused=(LINK,), dead={1: "it hangs"})
    found = replace(_answer(hosts, LATE), chips=[CHIP])
    lines = found.metrics().splitlines()
    for line in (
        "busbw_slow_anybody 1.0",
        'busbw_slow_ratio{quantity="all-reduce 16M",who="link a - d"} 2.3',
        'busbw_slow_ratio{quantity="computing",who="chip 3 of host a"} 1.12',
        'busbw_slow_silent{host="b"} 1.0',
        'busbw_slow_late_seconds{host="c"} 0.012',
        'busbw_slow_seconds{hosts="a b",quantity="all-reduce 16M"} 0.02',
    ):
        assert line in lines


def test_the_table_has_a_row_for_each_host_and_marks_the_named() -> None:
    found = replace(HEALTHY, fits={SIZE: FIT}, accused=(HOST,), dead={3: "it hangs"})
    lines = rendered("text", _answer(found).table())
    assert [line.split() for line in lines] == [
        ["host", "all-reduce", "16M"],
        ["a", "1.00"],
        ["b", "1.00"],
        ["c", "1.80", "*"],
        ["d", "1.00", "*"],
    ]
    late = rendered("text", _answer(HEALTHY, LATE).table())
    assert [line.split()[-1] == "*" for line in late] == [False, False, False, True, False]


def test_the_good_hosts_are_those_that_are_not_named_but_one_of_a_link() -> None:
    found = replace(HEALTHY, accused=(LINK,), dead={1: "it hangs"})
    assert _answer(found).good() == ["a", "c"]
    assert _answer(replace(HEALTHY, accused=(HOST,))).good() == ["a", "b", "d"]
    assert replace(_answer(HEALTHY), chips=[CHIP]).good() == ["b", "c", "d"]
    assert _answer(HEALTHY, LATE).good() == ["a", "b", "d"]


def test_a_link_without_an_answer_is_named_everywhere() -> None:
    pytest.importorskip("prometheus_client")
    found = _answer(replace(HEALTHY, cut={(0, 3): "no route"}))
    assert list(found.sentences()) == [
        "link a - d: no answer, though both hosts answer others: no route"
    ]
    assert found.is_anybody
    assert found.good() == ["a", "b", "c"]
    assert found.document()["cut"] == [{"hosts": ["a", "d"], "why": "no route"}]
    assert 'busbw_slow_cut{link="link a - d"} 1.0' in found.metrics()
