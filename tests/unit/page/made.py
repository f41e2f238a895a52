"""Pages with all that they can have, as golden files show them; no test lives here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from busbw.baselines.store import Published, Status, read_published
from busbw.history.lines import Line
from busbw.model.launch import Failure, LaunchId, Measurement, Run
from busbw.model.limits import moment_text
from busbw.model.verdict import Answer, Ceiling, Difference, SessionVerdict, Straggler, Verdict
from busbw.model.words import FailureKind, Outcome, SessionOutcome
from busbw.page import nights
from busbw.page.chart import (
    Axis,
    Chart,
    Gap,
    Heatmap,
    HeatmapRow,
    Kind,
    Picture,
    Point,
    Position,
    Scale,
    mark,
    series,
)
from busbw.page.content import Figure, Page, Section, Text
from busbw.page.curves import bandwidth, comparison, published
from busbw.page.history_charts import case_history
from busbw.page.nights import CaseNights, MachineNights
from busbw.page.page import page
from busbw.page.slow import slow_page
from busbw.report.reading import CompiledSession, Session
from busbw.slow.answer import Answer as Slow
from busbw.slow.fit import Fit
from busbw.slow.search import Accused, Found
from tests.helpers import build
from tests.helpers.history_lines import line
from tests.helpers.report_text import BUSBW, chart
from tests.helpers.results_files import compiled_session, program, session, verdict
from tests.unit.history.year import FOLDER, year

ROOT = Path(__file__).parents[3]
BEGIN = datetime(2026, 1, 1, 3, tzinfo=UTC)
DTYPES = ("float32", "int32", "float16", "bfloat16")
LOST: Mapping[str, Any] = {"times_us": (), "outcome": Outcome.OUT_OF_MEMORY}
SLOW: Mapping[str, Any] = dict(outcome=Outcome.REGRESSED, failed=True, ratio=1.5, limit=1.2)
RING = {"framework": "tensorflow", "strategy": "ring"}


def answered(*verdicts: Verdict, text: str = "because", **changes: Any) -> Session:
    """A session whose own test ran: FAILED if a case did, else FINE."""
    failed = any(one.failed for one in verdicts)
    outcome = SessionOutcome.FAILED if failed else SessionOutcome.FINE
    answer = SessionVerdict(outcomes=(outcome,), text=text, **changes)
    return replace(session(*verdicts), answer=answer)


def timed(size: int, *times_s: float, **changes: Any) -> Verdict:
    """A case whose launches took these times, of which the first is the median."""
    now = build.summary(times_s=times_s, median_s=times_s[0])
    return replace(verdict(size, 6.0, **changes), now=now)


def launched(*runs: Run, hosts: tuple[str, ...] = (), found: Session | None = None) -> Session:
    """The session, or one of a single case, each of whose cases has these launches."""
    found = found or session(verdict(4096, 6.0))
    measured = {
        one.spec: Measurement(case=one.case, runs=runs) for one in found.verdicts if one.case
    }
    return replace(found, measurements=measured, process_hosts=hosts)


def published_tables() -> list[Published]:
    """Of two slices a doubtful figure, another, and no memory."""
    whole = read_published(ROOT / "baselines/tpu-v2/128r/published.all_reduce.marsggbo-2019.json")
    lost = replace(whole.entries[-1], status=Status.OOM, algbw_gb_per_s=None, doubt="")
    few = (*whole.entries[:2], lost)
    return [replace(whole, entries=few), replace(whole, slice="v2-8", ranks=8, entries=few)]


def night(at: int, **changes: Any) -> Line:
    """A case in the night of that number."""
    began = moment_text(BEGIN + timedelta(days=at))
    return line(**{"session": f"{at:016x}", "at": began, **changes})


def machine(*lines: Line) -> MachineNights:
    return nights.machine("tpu/4r", lines)


def history(of: MachineNights) -> Chart:
    """The chart of its first case."""
    return case_history(of, of.cases[0])


def year_of_nights() -> MachineNights:
    return nights.machine(FOLDER, tuple(year()))


def changed(launches: int = 3) -> MachineNights:
    """Slower since a version; before, a night out of memory and one slower on purpose."""

    def of(at: int) -> Line:
        level, outcome = (15.0, Outcome.REGRESSED) if at >= 8 else (10.0, Outcome.PASS)
        times_us = tuple(level * (1 + (at + n) % 3 / 1000) for n in range(launches))
        usual = {"versions": {"jax": f"0.10.{at // 8}"}, "times_us": times_us, "outcome": outcome}
        slow = {"injected": "delay:200%", "times_us": (30.0,)}
        return night(at, **usual | {5: dict(LOST), 6: slow}.get(at, {}))

    return machine(*map(of, range(16)))


def _versions_each_night() -> MachineNights:
    """More changes of versions than a chart has room for, one of them with a level."""

    def of(at: int) -> Line:
        time_us = 10.0 * (1.0 + at % 3 / 1000) * (1.5 if at >= 20 else 1.0)
        return night(at, versions={"jax": f"0.10.0.dev{at}"}, times_us=(time_us,))

    return machine(*map(of, range(30)))


def _machines() -> Page:
    """What nights may say: cases that come late or are lost, and references."""
    reference = {"stack": "a" * 16, "is_reference": True}
    paired = {"stack": "a" * 16, "paired": True}
    failed: dict[str, Any] = {"times_us": (), "outcome": Outcome.FAILED}
    unjudged = {"times_us": (), "outcome": Outcome.NO_BASELINE}
    crashed, memory = FailureKind.CRASHED, FailureKind.OUT_OF_MEMORY
    large = build.case(payload_bytes=1 << 20)
    other = build.case(protocol="host/chain2/hugepages")
    machines = (
        machine(line()),
        machine(night(0), night(1, outcome=Outcome.FAILED), night(1, case=large)),
        machine(night(0), night(1, **failed), night(1, case=large, **LOST)),
        machine(night(0, failure=memory, **LOST), night(1, failure=memory, **LOST)),
        machine(
            night(0),
            night(1, injected="delay:200%"),
            night(2, paired=True),
            night(3, times_us=(), outcome=Outcome.SKIPPED),
            night(4, **failed),
            night(5, outcome=Outcome.FAILED, failure=crashed),
            night(6, failure=crashed, **unjudged, **reference),
            night(7, failure=memory, **unjudged),
        ),
        machine(line(), line(case=other), line(**paired), line(paired=True, **reference)),
        machine(night(0, **reference), night(1, **reference)),
        machine(*(night(at, times_us=(10.0 + at % 2 / 20,)) for at in range(20))),
    )
    named = (replace(one, folder=f"tpu/{n}") for n, one in enumerate(machines))
    return page([], list(named))


def spoiled(value: Any, text: str) -> Any:
    """With `text` before each text of a page that is not empty, its keys and names too."""
    if isinstance(value, str):
        return text + value if value else ""
    if isinstance(value, Mapping):
        return {spoiled(key, text): spoiled(of, text) for key, of in value.items()}
    if isinstance(value, tuple):
        return tuple(spoiled(one, text) for one in value)
    if not is_dataclass(value) or isinstance(value, type | CaseNights):
        return value
    return replace(
        value, **{of.name: spoiled(getattr(value, of.name), text) for of in fields(value)}
    )


def heatmap(*rows: HeatmapRow, nights: int, **changes: Any) -> Heatmap:
    columns = tuple(BEGIN + timedelta(days=at) for at in range(nights))
    edges = (0.03, 0.06, 0.12, 0.25)
    return Heatmap(**{"title": "t", "columns": columns, "rows": rows, "edges": edges} | changes)


def cells_of(*cells: float | Gap, **changes: Any) -> HeatmapRow:
    return HeatmapRow(**{"group": "jax", "label": "1K", "cells": cells} | changes)


def _on(axis: Axis, *places: Position) -> Chart:
    """Points at these places, in this order."""
    points = series("s", [(x, float(y)) for y, x in enumerate(places, 1)])
    return Chart(title=axis.name, x=axis, y=BUSBW, points=tuple(points))


def _words() -> Chart:
    """Curves of no, one, two and three points, whose ends and best are said; marks of a curve."""
    return chart(
        description="",
        points=(
            *series("none", []),
            *series("one", [(1024, 0.00123456)]),
            *series("two", [(1024, 2.0), (2048, 3.0)]),
            *series("three", [(1024, 2.0), (2048, 9.0), (1 << 30, 3.0)]),
            *series("a line", [(1024, 9.0)], Kind.LINE),
            *series("dots", [(2048, 3.0), (1024, 1.0), (4096, 2.0)], Kind.DOTS),
            Point(kind=Kind.LEVEL, name="median", y=2.0),
            *(mark("OUT_OF_MEMORY", x, None, "one") for x in (2048, 1 << 30)),
            mark("OUT_OF_MEMORY", 1 << 30, None, "two"),
            mark("TIMEOUT", 1024, None),
            mark("REGRESSED", 1024, 2.0, "a line"),
        ),
    )


def _bins() -> Heatmap:
    """Ratios next to the ends of bins, each kind of gap, and rows of another group."""
    ratios = (1.0, 1.029, 0.972, 1.031, 1 / 1.031, 1.061, 1.13, 1 / 1.13, 1.26, 0.79, 1e6, 1e-6)
    return heatmap(
        cells_of(*ratios, marks=((1, "+8 % since 2026-01-02"),)),
        cells_of(*[1.0] * 3, *[1.08] * 5, *Gap, label="2K"),
        cells_of(*[1.0] * 12, group="tensorflow"),
        cells_of(*[Gap.FAILED] * 12, group="tensorflow", label="2K"),
        nights=12,
        description="said",
    )


def _months() -> Heatmap:
    """A month has the median of its ratios, or else the most usual reason."""
    quiet = [1.0] * 334
    return heatmap(
        cells_of(*[1.0] * 10, *[1.3] * 11, *[Gap.OUT_OF_MEMORY] * 10, *quiet),
        cells_of(*[Gap.OUT_OF_MEMORY] * 20, *[Gap.FAILED] * 11, *[Gap.MISSING] * 334),
        nights=365,
    )


def _many_ceilings() -> Session:
    ceilings = (
        Ceiling(bytes_per_s=1e9 * n, most_bytes_per_s=1e12, text="", sure=True) for n in range(1, 5)
    )
    return session(*(verdict(1024 << n, 6.0, ceiling=one) for n, one in enumerate(ceilings)))


def pictures() -> Page:
    """Charts and heat maps as no session has them, or not on one page."""
    twelve = [verdict(4096, 6.0, ranks=n, dtype=one) for n in (2, 4, 8) for one in DTYPES]
    far = [
        verdict(4096, 6.0, ratio=r, limit=9.0, dtype=one) for r, one in zip((9, 1, 1, 1), DTYPES)
    ]
    found: tuple[Picture | None, ...] = (
        chart(),
        _words(),
        _on(Axis(name="categories", scale=Scale.CATEGORY), "b", "a"),
        _on(Axis(name="moments", scale=Scale.TIME), BEGIN.replace(day=3), BEGIN),
        _on(Axis(name="numbers"), 3.0, -1.0),
        bandwidth([_many_ceilings()]),
        bandwidth([session(*twelve)]),
        comparison(session(*far)),
        published(published_tables()),
        history(changed(launches=12)),
        history(_versions_each_night()),
        history(machine(line(outcome=Outcome.FAILED))),
        history(machine(*(night(at, **LOST) for at in range(3)))),
        _bins(),
        heatmap(cells_of(1.0, 2.0), nights=2, columns=(BEGIN, BEGIN)),
        heatmap(cells_of(*[1.0] * 15), nights=15),
        _months(),
        heatmap(cells_of(*[1.0] * 2000), nights=2000),
    )
    return Page(title="Pictures", parts=tuple(Figure(picture=one) for one in found if one))


def regression() -> Session:
    """Something of every outcome, of three processes on two hosts, with a reference."""
    failure = Failure(
        kind=FailureKind.CRASHED, message="gone", launch=LaunchId(name="1"), log="one\n  two"
    )
    skipped = {"outcome": Outcome.SKIPPED, "text": "not on a CPU"}
    found = answered(
        verdict(8192, 7.0, outcome=Outcome.IMPROVED, ratio=0.5, text="half the time"),
        verdict(4096, 6.0, **SLOW, ratio_interval=(1.4, 1.6)),
        verdict(1024, 3.0, ratio=1.0, ratio_interval=(0.9, 1.1)),
        verdict(1 << 20, None, outcome=Outcome.FAILED, failed=True, failure=failure),
        verdict(2 << 20, None),
        *(verdict(1024 << n, None, dtype="int32", **skipped) for n in range(5)),
        verdict(4096, 6.0, straggler=Straggler(process=1, ratio=2.0, host="b"), **RING),
        verdict(8192, 5.0, outcome=Outcome.NOISY, ratio=1.1, text="far apart", **RING),
        stack=Answer(text="8 % slower", is_slower=True),
        machine=Answer(text="as it was", is_slower=False),
    )
    runs = (
        build.run(process_own_s=(1e-3, 1e-3, 4e-3), rank_times_s=(1e-3, 2e-3, 1e-3)),
        build.run(process_own_s=(2e-3, 2e-3, 4e-3), injected="delay:50%"),
    )
    found = launched(*runs, hosts=("a", "a", "b"), found=found)
    key = build.key(hosts=2, processes=3, mesh="2x2")
    environment = replace(found.environment, key=key, commit="0123456789ab", load=0.5)
    references = {build.spec(): Measurement(case=build.case(), runs=(build.run(),))}
    return replace(found, environment=environment, references=references, busbw="")


def compiled() -> CompiledSession:
    """What changed and what may, two releases, no memory, and a topology without a compiler."""
    difference = Difference(what="strategy", before="Ring", now="Tree", fails=True)
    changed = {"outcome": Outcome.CHANGED, "text": "ring -> tree", "differences": (difference,)}
    lacking = {"outcome": Outcome.SKIPPED, "now": None, "text": "no XLA", "topology": "h100:8"}
    return compiled_session(
        program(4096, 8192, failed=True, **changed),
        program(8192, 12288, outcome=Outcome.CHANGED, text="accepted: a tree"),
        program(16384, 8192),
        program(16384, 8192, release="libtpu 0.0.43"),
        program(32768, None),
        *(program(size, 1, **lacking) for size in (4096, 8192)),
        missing="no XLA",
        outcome=SessionOutcome.FAILED,
    )


def _several() -> Page:
    """Sessions with something and nothing to compare with, and compilers of different chips."""
    gpu = program(4096, 8192, topology="h100:8", release="XLA 1")
    topologies = [program(4096, 8192, topology=f"v5e:{n}x4") for n in range(1, 15)]
    return page(
        [
            session(verdict(4096, 6.0, ratio=1.043), name="a.json", host="a"),
            session(verdict(4096, 5.0), name="b.json", host="b"),
            compiled_session(program(4096, 8192), gpu),
            compiled_session(program(4096, 8192, baseline=None)),
            compiled_session(*topologies, program(4096, 8192, outcome=Outcome.CHANGED)),
        ],
        [machine(night(0))],
    )


def _names() -> Page:
    """How curves of sessions are named that differ in one thing or another."""
    one, second = verdict(4096, 6.0), verdict(4096, 5.0, **RING)
    gathered = verdict(4096, 6.0, collective="all_gather", reduce_op="none")
    versions = {"jax": {"jax": "0.10.0"}, "tensorflow": {"tensorflow": "2.20.0"}}
    day, hour = (build.BEGAN + each for each in (timedelta(days=1), timedelta(hours=1)))
    pairs: Mapping[str, Sequence[Mapping[str, Any]]] = {
        "day": ({}, {"began": day}),
        "hour": ({}, {"began": hour}),
        "host": ({"host": "a"}, {"host": "b"}),
        "version": ({}, {"versions": {"jax": {"jax": "0.11.0"}}}),
        "file": ({"name": "x/a.json"}, {"name": "x/b.json"}),
        "folder": ({"name": "x/a.json"}, {"name": "y/a.json"}),
        "nothing": ({}, {}),
    }
    sessions = {
        "strategy": [session(one, second, verdict(4096, 4.0, **RING | {"strategy": "other"}))],
        "dtype": [session(one, verdict(4096, 6.0, dtype="bfloat16"))],
        "collective": [session(one, gathered)],
        "framework": [session(one, second, versions=versions)],
        **{what: [session(one, **changes) for changes in pair] for what, pair in pairs.items()},
    }
    charts = {what: bandwidth(found) for what, found in sessions.items()}
    sections = (
        Section(heading=what, parts=(Text(text=f"{one.title}: {one.subtitle}", points=names),))
        for what, one in charts.items()
        for names in [tuple(one.named(Kind.CURVE))]
    )
    return Page(title="Names", sections=tuple(sections))


def _slow() -> Page:
    """Host c and the link a - b are slow; d did not meet c."""
    times_s = {(0, 1): 0.02, (0, 2): 0.018, (1, 2): 0.0181, (0, 3): 0.01, (1, 3): 0.0101}
    names = ("all-reduce 64K", "all-reduce 16M")
    fit = Fit(level=-4.6, hosts={0: 0.0, 2: 0.6}, links={(0, 1): 0.7}, spread=0.01)
    found = Found(
        accused=(
            Accused(who=(0, 1), quantity=names[1], ratio=2.0, p=0.003, alone=2.1),
            Accused(who=(2,), quantity=names[1], ratio=1.8, p=0.0006),
        ),
        fits=dict.fromkeys(names, fit),
        racks={},
        dead={3: "it hangs"},
        undecided=(),
        least={},
        rounds=30,
        times_s={who: dict(zip(names, (1e-4, time_s))) for who, time_s in times_s.items()},
    )
    return slow_page(Slow(found=found, names=["a", "b", "c", "d"]))


PAGES: Mapping[str, Callable[[], Page]] = {
    "pictures": pictures,
    "names": _names,
    "regression": lambda: page([regression()], [changed()]),
    "compiled": lambda: page([compiled()]),
    "several": _several,
    "machines": _machines,
    "year": lambda: page([], [year_of_nights()]),
    "slow": _slow,
}
