"""What charts and pages do with too much and with nothing; golden files have all else of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from busbw.model.verdict import Answer as ModelAnswer
from busbw.model.verdict import SessionVerdict, Verdict
from busbw.model.words import Outcome, SessionOutcome
from busbw.page.chart import Chart, Kind, Scale
from busbw.page.content import Answer, Facts, Figure, Part, Text
from busbw.page.curves import bandwidth, comparison, memory, published
from busbw.page.history import since_when
from busbw.page.history_charts import case_history, ratios
from busbw.page.page import page
from busbw.page.spread import launches, processes, ranks
from busbw.report.reading import Session
from tests.helpers import build
from tests.helpers.history_lines import line
from tests.helpers.results_files import compiled_session, program, session, verdict
from tests.unit.page import made

FINE, LOST = verdict(4096, 6.0), verdict(4096, None)
MANY = [verdict(4096, 6.0, ratio=1.1, ranks=ranks) for ranks in range(2, 16)]
ALONE = made.launched(build.run(1e-3))
IDLE = made.launched(build.run(1e-3, process_own_s=(0.0, 0.0)))


def _of_ranks(count: int) -> Chart | None:
    return ranks(made.launched(build.run(1e-3, rank_times_s=(1e-3,) * count)))


@pytest.mark.parametrize("verdicts", [(), (LOST,)])
def test_a_chart_without_a_bandwidth_is_refused(verdicts: Sequence[Verdict]) -> None:
    with pytest.raises(ValueError, match="no bandwidth of a collective by itself"):
        bandwidth([session(*verdicts)])


def test_more_curves_than_a_reader_tells_apart_are_refused() -> None:
    sessions = [session(FINE, name=str(n)) for n in range(13)]
    with pytest.raises(ValueError, match="13 curves; accepted are 12"):
        bandwidth(sessions)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: comparison(session(FINE)), id="no ratio"),
        pytest.param(lambda: comparison(session(*MANY)), id="too many ratios"),
        pytest.param(lambda: memory(compiled_session()), id="no program"),
        pytest.param(lambda: memory(compiled_session(program(4096, None))), id="lost program"),
        pytest.param(lambda: launches(session(made.timed(4096, 1e-3))), id="one launch"),
        pytest.param(lambda: launches(session(LOST)), id="no launch"),
        pytest.param(lambda: processes(session(FINE)), id="no measurement"),
        pytest.param(lambda: processes(ALONE), id="one process"),
        pytest.param(lambda: processes(IDLE), id="no time of their own"),
        pytest.param(lambda: ranks(ALONE), id="no clock of ranks"),
        pytest.param(lambda: _of_ranks(65), id="more ranks than stand side by side"),
    ],
)
def test_there_is_no_chart(make: Callable[[], Chart | None]) -> None:
    assert make() is None and _of_ranks(64) is not None


def test_without_names_of_hosts_processes_have_their_numbers() -> None:
    chart = processes(made.launched(build.run(1e-3, process_own_s=(1e-3, 1e-3))))
    assert chart is not None and chart.places(Kind.DOTS) == ["0", "1"]


@pytest.mark.parametrize(("make", "of"), [(processes, "process_own_s"), (ranks, "rank_times_s")])
def test_a_member_stands_at_its_median_over_the_launches(
    make: Callable[[Session], Chart | None], of: str
) -> None:
    each = [(1e-3, 1e-3, 1e-3), (9e-3, 1e-3, 1e-3), (1e-3, 1e-3, 2e-3)]
    chart = make(made.launched(*(build.run(1e-3, **{of: times_s}) for times_s in each)))
    assert chart is not None
    assert [one.y for one in chart.points if one.kind is Kind.DOTS] == [1.0, 1.0, 1.0]


def test_figures_without_a_doubt_are_not_said_to_have_one() -> None:
    whole, _ = made.published_tables()
    assert "doubtful" in published([whole]).subtitle
    assert "doubtful" not in published([replace(whole, entries=whole.entries[1:])]).subtitle


@pytest.mark.parametrize(
    ("times_us", "unit", "scale", "value"),
    [
        ((12.5,), "us", Scale.LINEAR, 12.5),
        ((999.0,), "us", Scale.LINEAR, 999.0),
        ((1500.0,), "ms", Scale.LINEAR, 1.5),
        ((2e6,), "s", Scale.LINEAR, 2.0),
        ((10.0, 60.0), "us", Scale.LOG10, 10.0),
    ],
)
def test_times_have_the_unit_and_the_axis_that_read_best(
    times_us: tuple[float, ...], unit: str, scale: Scale, value: float
) -> None:
    machine = made.machine(line(times_us=times_us))
    chart = case_history(machine, machine.cases[0])
    assert (chart.y.unit, chart.y.scale) == (unit, scale)
    assert chart.of(Kind.DOTS)[0].y == pytest.approx(value)


def test_a_case_without_any_night_has_no_chart() -> None:
    machine = made.machine(line(injected="delay:5%"))
    with pytest.raises(ValueError, match="there is no night"):
        case_history(machine, machine.cases[0])


def test_a_machine_with_more_noise_has_wider_bins() -> None:
    draw = random.Random(1)
    times_us = [(10 * math.exp(draw.gauss(0, 0.05)),) for _ in range(31)]
    found = ratios(made.machine(*(made.night(at, times_us=of) for at, of in enumerate(times_us))))
    assert found.edges == (0.12, 0.25, 0.5, 1.0)


def test_many_cases_are_one_picture_of_the_newest_nights() -> None:
    changes: list[dict[str, Any]] = [
        {"case": build.case(collective=name, payload_bytes=1024 << power)}
        for name in ("all_reduce", "all_gather", "reduce_scatter", "permute")
        for power in range(21)
    ]
    nights = [made.night(at) for at in range(500)]
    found = ratios(made.machine(*(made.night(0, **one) for one in changes), *nights))
    assert len(found.rows) == 84 and {len(row.cells) for row in found.rows} == {400}
    assert len(found.columns) == 400 and "the newest 400 nights of 500" in found.subtitle


def _parts(found: Session, heading: str) -> tuple[Part, ...]:
    """What is below a heading of its page."""
    (section,) = [one for one in page([found]).sections if one.heading == heading]
    return section.parts


def _answers(*outcomes: SessionOutcome, **changes: Any) -> list[Answer]:
    answer = SessionVerdict(outcomes=outcomes, text="because", **changes)
    found = page([replace(session(FINE), answer=answer)])
    return [one for one in found.parts if isinstance(one, Answer)]


def test_only_fine_is_good_and_what_is_not_known_is_not() -> None:
    for outcome in SessionOutcome:
        (one,) = _answers(outcome)
        is_good = outcome is SessionOutcome.FINE
        assert (one.word, one.text, one.is_good) == (outcome.value, "because", is_good)
    _, stack = _answers(SessionOutcome.FINE, stack=ModelAnswer(text="x", is_slower=None))
    assert (stack.word, stack.is_good) == ("The stack is unknown.", False)


def test_what_is_not_known_is_no_fact() -> None:
    facts = [one for one in page([session(FINE)]).parts if isinstance(one, Facts)]
    assert len(facts) == 2 and "" not in {text for one in facts for text in one.facts.values()}


def test_more_reasons_than_a_reader_wants_are_counted() -> None:
    noisy = [verdict(1024 << n, 6.0, outcome=Outcome.NOISY, text=f"reason {n}") for n in range(20)]
    (text,) = _parts(session(*noisy), "What changed")
    assert isinstance(text, Text)
    assert "reason 11" in text.points[11]
    assert text.points[12:] == ("and 8 more: see the tables of cases",)


def test_few_curves_share_a_chart_and_of_too_many_those_that_failed_have_one_each() -> None:
    few = [verdict(4096, 6.0, dtype=name) for name in made.DTYPES[:3]]
    assert len(_parts(session(*few), "Bandwidth")) == 1
    many = [
        verdict(4096, 6.0, dtype=name, ranks=ranks, failed=ranks == 8)
        for name in made.DTYPES
        for ranks in (2, 4, 6, 8)
    ]
    first, *others, text = _parts(session(*many), "Bandwidth")
    assert isinstance(first, Figure) and "8 ranks" in first.picture.subtitle
    assert len(others) == 11 and all(isinstance(one, Figure) for one in others)
    assert text == Text(text="4 curves more: the tables of cases have them.")


def test_a_case_may_have_failed_in_each_of_its_nights_or_tonight_only() -> None:
    slow = [verdict(4096, 6.0, **made.SLOW)]
    red = made.machine(*(made.night(at, outcome=Outcome.REGRESSED) for at in range(2)))
    name = build.case().name
    assert since_when(slow, [red]) == (f"{name}: REGRESSED in each of its 2 nights",)
    assert since_when(slow, [made.machine(made.night(0), made.night(1))]) == ()
