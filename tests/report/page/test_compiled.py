"""What a page says of a session that compiled."""

from __future__ import annotations

from busbw.model.verdict import Difference
from busbw.model.words import Outcome, SessionOutcome
from busbw.report.page import page
from busbw.report.page.content import Answer, Facts, Figure, Listing, Part, Points, Text
from busbw.report.reading import CompiledSession
from tests.report.programs import RELEASE, compiled_session, program


def _parts(found: CompiledSession, heading: str) -> tuple[Part, ...]:
    return next(one.parts for one in page([found]).sections if one.heading == heading)


def _texts(found: CompiledSession) -> str:
    words = []
    for one in _parts(found, "What changed"):
        words += [one.title, *one.points] if isinstance(one, Points) else []
        words += [one.text] if isinstance(one, Text) else []
    return "\n".join(words)


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


def test_a_session_without_a_verdict_is_not_good() -> None:
    found = page([compiled_session(program(4096, 8192), outcome=SessionOutcome.NO_VERDICT)])
    answer = found.parts[0]
    assert isinstance(answer, Answer) and not answer.is_good


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
