"""What a page says of sessions, measured and compiled, and of the nights of a machine."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from busbw.history.files import Read
from busbw.history.lines import Line
from busbw.model.launch import Failure, LaunchId, Measurement
from busbw.model.verdict import Answer as ModelAnswer
from busbw.model.verdict import Difference, SessionVerdict, Straggler
from busbw.model.words import FailureKind, Outcome, SessionOutcome
from busbw.page import nights
from busbw.page.content import (
    Answer,
    Facts,
    Figure,
    Gallery,
    Listing,
    Log,
    Part,
    Points,
    Text,
)
from busbw.page.history import machine_sections
from busbw.page.html import html, sparkline
from busbw.page.nights import CaseNights, MachineNights
from busbw.page.page import AnySession, page
from busbw.page.palette import LIGHT
from busbw.page.pictures import style_sheet
from busbw.report.reading import Session
from tests import build
from tests.history.lines import line
from tests.history.year import FOLDER, year
from tests.page.test_html import ACTIVE, HOSTILE, read
from tests.report.written import RELEASE, compiled_session, program, session, verdict


def _parts(found: AnySession, heading: str) -> tuple[Part, ...]:
    """What is below a heading of its page."""
    return next(
        (one.parts for one in page([found]).sections if one.heading == heading and one.parts), ()
    )


def _texts(found: AnySession, heading: str = "What changed") -> str:
    """The words of all points and texts below a heading."""
    words = []
    for one in _parts(found, heading):
        if isinstance(one, Points):
            words += [one.title, *one.points]
        if isinstance(one, Text):
            words.append(one.text)
    return "\n".join(words)


def _titles(found: Session, heading: str) -> list[str]:
    return [one.picture.title for one in _parts(found, heading) if isinstance(one, Figure)]


def _answers(found: Session) -> list[Answer]:
    return [one for one in page([found]).parts if isinstance(one, Answer)]


def _answered(found: Session, outcome: SessionOutcome, text: str, **changes: Any) -> Session:
    return replace(found, answer=SessionVerdict(outcomes=(outcome,), text=text, **changes))


def test_a_session_whose_test_did_not_run_has_no_verdict() -> None:
    (answer,) = _answers(session(verdict(4096, 6.0)))
    assert (answer.word, answer.is_good) == ("NO_VERDICT", False)


@pytest.mark.parametrize("outcome", SessionOutcome)
def test_only_fine_is_good(outcome: SessionOutcome) -> None:
    found = session(verdict(4096, 6.0))
    (answer,) = _answers(_answered(found, outcome, "because"))
    assert (answer.word, answer.text) == (outcome.value, "because")
    assert answer.is_good == (outcome is SessionOutcome.FINE)


def test_stack_and_machine_have_answers_of_their_own() -> None:
    stack = ModelAnswer(text="8 % slower", is_slower=True)
    machine = ModelAnswer(text="as it was", is_slower=False)
    found = _answered(
        session(verdict(4096, 6.0)), SessionOutcome.SLOWER, "x", stack=stack, machine=machine
    )
    _, *two = _answers(found)
    assert [(one.word, one.text, one.is_good) for one in two] == [
        ("The stack is slower.", "8 % slower", False),
        ("The machine is not slower.", "as it was", True),
    ]
    unknown = replace(stack, is_slower=None)
    _, one = _answers(_answered(found, SessionOutcome.FINE, "x", stack=unknown))
    assert (one.word, one.is_good) == ("The stack is unknown.", False)


def test_facts_say_where_it_was_measured_and_leave_out_what_is_not_known() -> None:
    key = build.key(hosts=2, processes=2, mesh="2x2")
    found = session(verdict(4096, 6.0), key=key, host="a")
    found = replace(found, process_hosts=("a", "b"), busbw="")
    first, second = (one for one in page([found]).parts if isinstance(one, Facts))
    assert first.facts["ranks"] == "4 ranks in a 2x2 mesh, 2 hosts, 2 processes"
    assert first.facts["hosts"] == "a, b"
    assert "busbw" not in first.facts and not first.title
    assert second.title and second.facts["file"] == "night.json"
    assert "" not in {*first.facts.values(), *second.facts.values()}


def test_what_failed_comes_first_then_what_got_faster() -> None:
    slow = verdict(4096, 6.0, outcome=Outcome.REGRESSED, failed=True, ratio=1.5, limit=1.2)
    fast = verdict(8192, 7.0, outcome=Outcome.IMPROVED, ratio=0.5, text="half the time")
    found = _answered(session(fast, slow), SessionOutcome.FAILED, "x")
    said = _texts(found, "What changed")
    assert said.index("1 of 2 cases failed") < said.index("1 case got faster")
    assert "1 REGRESSED: jax 4K 1.50 x (limit 1.20 x)" in said
    assert "8K: half the time" in said


def test_a_reason_that_cases_share_is_said_once() -> None:
    skipped = [
        verdict(1024 << n, 6.0, outcome=Outcome.SKIPPED, text="not on a CPU") for n in range(5)
    ]
    said = _texts(session(*skipped), "What changed")
    assert said.count("not on a CPU") == 1
    assert "jax all_reduce (psum) 1K to 16K: not on a CPU" in said


def test_more_reasons_than_a_reader_wants_are_counted() -> None:
    skipped = [
        verdict(1024 << n, 6.0, outcome=Outcome.NOISY, text=f"reason {n}") for n in range(20)
    ]
    said = _texts(session(*skipped), "What changed")
    assert "reason 11" in said and "reason 12" not in said
    assert "and 8 more: see the tables of cases" in said


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (None, "There was nothing to compare with: no case has a baseline."),
        (1.043, "Nothing: 1 case compared, the slowest takes 1.043 x its baseline."),
    ],
)
def test_nothing_that_changed_is_said_too(ratio: float | None, said: str) -> None:
    assert _texts(session(verdict(4096, 6.0, ratio=ratio)), "What changed") == said


def test_a_straggler_is_named_once_and_logs_are_folded() -> None:
    straggler = Straggler(process=1, ratio=2.0, host="b")
    failure = Failure(
        kind=FailureKind.CRASHED, message="gone", launch=LaunchId(name="1"), log="one\ntwo"
    )
    failed = verdict(4096, None, outcome=Outcome.FAILED, failed=True, failure=failure)
    found = session(failed, verdict(8192, 6.0, straggler=straggler))
    assert _texts(found, "What changed").count("process 1 (b) takes 2.0 x") == 1
    (log,) = (one for one in _parts(found, "What changed") if isinstance(one, Log))
    assert "4K" in log.title
    assert [line.strip() for line in log.lines][-2:] == ["one", "two"]


def test_few_curves_share_a_chart_and_several_have_one_each_too() -> None:
    few = [verdict(4096, 6.0, dtype=name) for name in ("float32", "int32", "float16")]
    assert len(_titles(session(*few), "Bandwidth")) == 1
    several = [*few, verdict(4096, 6.0, dtype="bfloat16")]
    assert len(_titles(session(*several), "Bandwidth")) == 5
    many = [
        verdict(4096, 6.0, dtype=name, ranks=ranks, failed=ranks == 8)
        for name in ("float32", "int32", "float16", "bfloat16")
        for ranks in (2, 4, 6, 8)
    ]
    found = session(*many)
    assert len(_titles(found, "Bandwidth")) == 12
    assert "4 curves more" in _texts(found, "Bandwidth")
    first = _parts(found, "Bandwidth")[0]
    assert isinstance(first, Figure) and "8 ranks" in first.picture.subtitle


def test_ratios_have_a_chart_with_interval_and_limit_and_the_word_of_their_reference() -> None:
    compared = verdict(4096, 6.0, ratio=1.3, ratio_interval=(1.2, 1.4), limit=1.1)
    found = session(compared, verdict(8192, 6.0))
    assert _titles(found, "Ratios") == ["Time over that of the baseline"]
    paired = replace(found, references={build.spec(): Measurement(case=build.case())})
    assert _titles(paired, "Ratios") == ["Time over that of the reference"]
    (figure,) = _parts(found, "Ratios")
    assert isinstance(figure, Figure)
    (row,) = figure.table.rows
    assert list(row.values.values()) == [4096, 1.3, 1.1, 1.2, 1.4]
    assert not _parts(session(verdict(4096, 6.0)), "Ratios")


def _measured(found: Session, **changes: Any) -> Session:
    """With launches that have these times of processes or ranks."""
    measurements = {
        one.spec: Measurement(case=one.case, runs=(build.run(1e-3, **changes),))
        for one in found.verdicts
        if one.case is not None
    }
    return replace(found, measurements=measurements)


def test_spread_is_of_launches_and_in_a_group_of_processes_with_their_hosts() -> None:
    found = session(verdict(4096, 6.0), verdict(8192, 6.0))
    assert _titles(found, "Spread") == ["Launches"]
    group = replace(_measured(found, process_own_s=(1e-3, 3e-3)), process_hosts=("a", "b"))
    assert _titles(group, "Spread") == ["Launches", "Processes"]
    _, figure = _parts(group, "Spread")
    assert isinstance(figure, Figure)
    assert [list(row.values.values()) for row in figure.table.rows] == [
        ["0 (a)", "0.5, 0.5"],
        ["1 (b)", "1.5, 1.5"],
    ]
    ranks = _measured(found, rank_times_s=(1e-3, 1e-3, 2e-3))
    assert _titles(ranks, "Spread") == ["Launches", "Ranks"]


def test_steps_have_times_instead_of_bandwidths_and_strategies_a_dot_each() -> None:
    steps = [verdict(1024 << n, 6.0, step="dense") for n in range(3)]
    strategies = [
        verdict(143656, 6.0, step="cnn", strategy=name, framework="tensorflow", ranks=ranks)
        for name, ranks in (("one_device", 1), ("mirrored", 4))
    ]
    found = session(*steps, *strategies)
    assert not _parts(found, "Bandwidth")
    assert _titles(found, "Training") == ["Training steps", "Training under strategies"]


def test_the_tables_of_the_terminal_are_there_with_every_case() -> None:
    found = session(verdict(4096, 6.0), verdict(8192, None), verdict(4096, 5.0, dtype="int32"))
    tables = [one.table for one in _parts(found, "Cases") if isinstance(one, Listing)]
    assert [len(one.rows) for one in tables] == [2, 1]


def test_several_sessions_have_a_chart_together_and_a_section_each() -> None:
    one = session(verdict(4096, 6.0), name="a.json", host="a")
    other = session(verdict(4096, 5.0), name="b.json", host="b")
    found = page([one, other])
    assert found.title == "2 sessions"
    first, *others = found.sections
    assert first.heading == "Bandwidth of all sessions"
    assert len(others) == 2 and all(section.sections for section in others)
    (figure,) = first.parts
    assert isinstance(figure, Figure)
    assert len(figure.table.columns) == 3 + 1


def test_the_head_has_the_answer_the_topologies_and_the_compilers() -> None:
    found = page([compiled_session(program(4096, 8192))])
    assert found.title == "Collectives as they are compiled"
    answer, facts = found.parts
    assert isinstance(answer, Answer) and (answer.word, answer.is_good) == ("FINE", True)
    assert isinstance(facts, Facts)
    assert facts.facts["topologies"] == "v5e:2x4"
    assert (facts.facts["compilers"], facts.facts["host"]) == (RELEASE, "laptop")
    assert facts.facts["file"] == "compiled.json"


def test_nothing_that_changed_is_said_and_so_is_nothing_to_compare_with() -> None:
    same = program(4096, 8192)
    assert _texts(compiled_session(same)) == "Nothing: 1 case compiled as the baselines say."
    new = program(4096, 8192, baseline=None, outcome=Outcome.NO_BASELINE)
    assert "nothing to compare with" in _texts(compiled_session(new))


def test_what_changed_is_said_with_the_reason_and_accepted_changes_apart() -> None:
    difference = Difference(what="strategy", before="Ring", now="Tree", fails=True)
    changed = program(
        4096, 8192, outcome=Outcome.CHANGED, failed=True, text="x", differences=(difference,)
    )
    accepted = program(8192, 8192, outcome=Outcome.CHANGED, text="accepted: a tree")
    said = _texts(compiled_session(changed, accepted))
    assert "1 of 2 cases failed:" in said and "1 CHANGED: jax" in said
    assert "v5e:2x4: jax all_reduce (psum) 8K: accepted: a tree" in said


def test_a_topology_without_a_compiler_is_said_once() -> None:
    skipped = [
        program(size, 1, topology="h100:8", outcome=Outcome.SKIPPED, now=None, text="no XLA")
        for size in (4096, 8192)
    ]
    found = compiled_session(program(4096, 8192), *skipped, missing="no XLA")
    assert _texts(found).count("no XLA") == 1
    assert "h100:8: no XLA" in _texts(found)


def test_memory_has_a_chart_and_every_case_a_row() -> None:
    found = compiled_session(program(4096, 8192), program(8192, None))
    (figure,) = _parts(found, "Memory")
    assert isinstance(figure, Figure)
    tables = [one.table for one in _parts(found, "Compiled cases") if isinstance(one, Listing)]
    assert [len(one.rows) for one in tables] == [2]


def test_compilers_of_different_chips_are_no_releases_of_each_other() -> None:
    tpu, gpu = program(4096, 8192), program(4096, 8192, topology="h100:8", release="XLA 1")
    found = compiled_session(tpu, gpu)
    assert "release by release" not in _texts(found)
    (figure,) = _parts(found, "Memory")
    assert isinstance(figure, Figure)
    assert [column.id for column in figure.table.columns][1:] == ["v5e:2x4", "h100:8"]
    later = program(4096, 8192, release="libtpu 0.0.43")
    assert "release by release: libtpu 0.0.42 -> libtpu 0.0.43" in _texts(
        compiled_session(tpu, later, gpu)
    )


@pytest.fixture(scope="module")
def machine() -> MachineNights:
    """A year with planted changes."""
    return nights.machine(FOLDER, Read(lines=tuple(year())))


def _of(*lines: Line) -> MachineNights:
    return nights.machine("tpu/4r", Read(lines=lines))


def _said(machine: MachineNights) -> str:
    """The words of the overview."""
    (found,) = machine_sections([machine])
    words = []
    for one in found.parts:
        words += [one.title, *one.points] if isinstance(one, Points) else []
        words += [one.text] if isinstance(one, Text) else []
    return "\n".join(words)


def _gallery(machine: MachineNights) -> tuple[Figure, ...]:
    (found,) = machine_sections([machine])
    changed, _ = found.sections
    return next((one.figures for one in changed.parts if isinstance(one, Gallery)), ())


def _nights(count: int, **changes: Any) -> list[Line]:
    return [
        line(session=f"{night:016x}", at=f"2026-01-{night + 1:02}T03:00:00Z", **changes)
        for night in range(count)
    ]


def test_every_planted_change_is_said_once_with_what_changed_there(machine: MachineNights) -> None:
    said = _said(machine)
    assert said.count("since 2026-03-04: jax.all_reduce.psum.float32.1K") == 1
    assert "take 1.080 to 1.081 x the time they took before; changed there: libtpu 0.0.34" in said
    assert said.count("changed there: tensorflow 2.19.1 -> 2.20.0") == 1
    assert "since 2026-08-08: jax.all_reduce.psum.float32.1024M: OUT_OF_MEMORY" in said
    assert "357 nights from 2025-12-01 to 2026-11-30: 349 FINE, 8 SLOWER." in said


def test_what_changed_has_a_chart_each_and_no_change_is_crowded_out(machine: MachineNights) -> None:
    titles = [one.picture.title for one in _gallery(machine)]
    assert len(titles) == 12 == len(set(titles))
    assert "1024M" in titles[0]
    first = " ".join(titles[1:4])
    assert "tensorflow all_reduce (tpu), 256K" in first or "512K" in first
    assert "jax" in first and "tensorflow all_reduce (tpu), 512M" in first
    (found,) = machine_sections([machine])
    others = found.sections[0].parts[-1]
    assert isinstance(others, Gallery) and others.title == "9 cases more that changed"
    assert len({*titles, *(one.picture.title for one in others.figures)}) == 21


def test_every_case_has_a_line_and_a_heat_map_all_of_them(machine: MachineNights) -> None:
    (found,) = machine_sections([machine])
    (trends,) = found.sections[1].parts
    assert isinstance(trends, Listing)
    assert len(trends.table.rows) == len(trends.cases) == 42
    (heatmap,) = (one for one in found.parts if isinstance(one, Figure))
    assert "over that of the first 20 nights" in heatmap.picture.title


def test_a_quiet_history_says_that_nothing_changed() -> None:
    machine = _of(*_nights(5))
    assert "No level of a case changed." in _said(machine)
    assert "5 nights from 2026-01-01 to 2026-01-05: 5 FINE." in _said(machine)
    assert _gallery(machine) == ()


def test_one_night_is_a_history() -> None:
    machine = _of(line())
    assert "1 night from 2026-01-31 to 2026-01-31" in _said(machine)


@pytest.mark.parametrize("outcome", [Outcome.OUT_OF_MEMORY, Outcome.FAILED])
def test_a_case_without_a_time_any_more_is_named_with_the_night(outcome: Outcome) -> None:
    *before, last = _nights(5)
    machine = _of(*before, replace(last, outcome=outcome, times_us=()))
    name = machine.cases[0].case.name
    assert f"since 2026-01-05: {name}: {outcome.value}" in _said(machine)
    assert len(_gallery(machine)) == 1


def test_a_case_that_never_had_a_time_or_has_one_again_is_not_lost() -> None:
    first, second, *others = _nights(5)
    again = _of(first, replace(second, outcome=Outcome.FAILED, times_us=()), *others)
    never = _of(*(replace(one, outcome=Outcome.FAILED, times_us=()) for one in _nights(5)))
    assert "without a time" not in _said(again) + _said(never)


def test_machines_have_a_section_each_and_the_page_of_one_has_its_name(
    machine: MachineNights,
) -> None:
    assert page([], [machine]).title == f"History of {FOLDER}"
    two = page([], [machine, _of(line())])
    assert two.title == "2 machines" or two.title == "History of 2 machines"
    assert [one.heading for one in two.sections] == [f"History of {FOLDER}", "History of tpu/4r"]


def test_the_history_comes_below_what_changed_tonight(machine: MachineNights) -> None:
    found = page([session(verdict(4096, 6.0))], [machine])
    shown = [one.heading for one in found.sections if not one.is_empty]
    assert shown == ["What changed", "Bandwidth", "History", "Spread", "Cases"]


def test_hostile_names_of_a_history_do_no_harm() -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    case = build.case()
    before = _nights(8, case=case, host=HOSTILE, versions={"jax": HOSTILE})
    after = [
        replace(
            one,
            session=f"{night + 20:016x}",
            at=f"2026-02-{night + 1:02}T03:00:00Z",
            times_us=(30.0, 30.1, 30.2),
            versions={"jax": f"2{HOSTILE}"},
            surroundings={"XLA_FLAGS": HOSTILE},
        )
        for night, one in enumerate(before)
    ]
    machine = _of(*before, *after)
    assert machine.cases[0].changes
    found = read(html(page([], [machine])))
    assert not found.all(*ACTIVE)
    assert not [name for one in found.all() for name in one.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in found.whole_text


def test_a_sparkline_is_no_picture_for_screen_readers(machine: MachineNights) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    found = read(html(page([], [_of(*_nights(5))])))
    cells = [one for one in found.all("td") if one.all("svg")]
    assert cells and all(one.all("svg")[0].attributes["aria-hidden"] == "true" for one in cells)


def _cases(*lines: Line) -> tuple[CaseNights, ...]:
    return nights.machine("tpu/4r", Read(lines=lines)).cases


def _later(number: int, **changes: object) -> Line:
    return line(session=f"{number:016x}", at=f"2026-03-{number:02d}T03:00:00Z", **changes)


def _paths(text: str) -> list[str]:
    return [one.attrib["d"] for one in Tree.fromstring(text) if one.tag == "path"]


def test_a_year_takes_less_than_a_kilobyte_and_a_page_of_42_little(machine: MachineNights) -> None:
    sizes = [len(sparkline(one)) for one in machine.cases]
    assert 300 < max(sizes) < 1000


def test_it_is_hidden_and_has_the_colours_of_charts(machine: MachineNights) -> None:
    root = Tree.fromstring(sparkline(machine.cases[0]))
    assert (root.get("aria-hidden"), root.get("class")) == ("true", "busbw-chart")
    for one in root:
        assert one.attrib["stroke"] in LIGHT.series
        assert f'[stroke="{one.attrib["stroke"]}"]' in style_sheet()


def test_a_change_is_a_dot_on_the_new_level_and_slower_is_higher(machine: MachineNights) -> None:
    line_path, dots = _paths(sparkline(machine.cases[0]))
    assert dots.count("h0") == 1
    _, y = map(int, re.findall(r"\d+", dots)[:2])
    first_y = int(re.findall(r"-?\d+", line_path)[1])
    assert y < first_y


def test_it_stays_within_its_box(machine: MachineNights) -> None:
    for one in machine.cases:
        for path in _paths(sparkline(one)):
            x = y = 0
            for name, numbers in re.findall(r"([Mlh])([^Mlh]*)", path):
                for pair in numbers.split(" ") if name != "h" else ():
                    dx, dy = map(int, pair.split(","))
                    x, y = (dx, dy) if name == "M" else (x + dx, y + dy)
                    assert 0 < x < 240 and 0 < y < 48


def test_noise_is_a_level_line() -> None:
    lines = [_later(at, times_us=(10.0 + at % 2 / 20,)) for at in range(1, 29)]
    (path,) = _paths(sparkline(_cases(*lines)[0]))
    ys = [int(pair.split(",")[1]) for pair in path.partition("l")[2].split(" ")]
    assert max(map(abs, ys)) <= 3


def test_nights_without_a_time_break_the_line() -> None:
    lost = {"times_us": (), "outcome": Outcome.OUT_OF_MEMORY}
    (path,) = _paths(sparkline(_cases(_later(1), _later(2), _later(3, **lost), _later(4))[0]))
    assert path.count("M") == 2 and path.endswith("h0")


def test_one_night_is_a_point_and_none_is_nothing() -> None:
    (path,) = _paths(sparkline(_cases(line())[0]))
    assert re.fullmatch(r"M120,\d+h0", path)
    assert sparkline(_cases(line(times_us=(), outcome=Outcome.OUT_OF_MEMORY))[0]) == ""
