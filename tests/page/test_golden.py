"""The specification of every chart, as it was looked at: a change of one is seen in its file.

`python -m tests.page.test_golden` writes them anew, to be looked at again before they are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.baselines.store import read_published
from busbw.history.files import Read
from busbw.history.lines import Line
from busbw.model.launch import Measurement
from busbw.model.words import Outcome
from busbw.page import nights
from busbw.page.bandwidth import bandwidth, comparison, published
from busbw.page.chart import Picture
from busbw.page.curves import memory, steps, strategies
from busbw.page.history_charts import case_history, ratios
from busbw.page.nights import MachineNights
from busbw.page.spread import launches, processes
from busbw.page.vega import specification
from busbw.report.reading import Session
from tests import build
from tests.history.lines import line
from tests.report.shown import chart
from tests.report.written import compiled_session, program, session, verdict

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"


def _session() -> Session:
    return session(
        verdict(4096, 6.0, ratio=1.1, ratio_interval=(1.0, 1.2), limit=1.3),
        verdict(8192, 3.0, ratio=1.5, limit=1.3, outcome=Outcome.REGRESSED),
        verdict(16384, None),
        verdict(4096, 5.0, framework="tensorflow", strategy="ring", ratio=0.9, limit=1.2),
    )


def _timed(step: str, strategy: str = "psum") -> Session:
    timed = replace(
        verdict(4096, 6.0, step=step, strategy=strategy), now=build.summary(times_s=(1e-3, 3e-3))
    )
    return session(timed)


def _group() -> Session:
    found = session(verdict(4096, 6.0))
    (one,) = found.verdicts
    assert one.case is not None
    runs = (build.run(1e-3, process_own_s=(1e-3, 4e-3)),)
    measured = {one.spec: Measurement(case=one.case, runs=runs)}
    return replace(found, measurements=measured, process_hosts=("a", "b"))


def _machine() -> MachineNights:
    """A level that changed with a version, a night out of memory, and one slower on purpose."""

    def night(at: int, **changes: Any) -> Line:
        versions = {"jax": "0.10.0" if at < 8 else "0.10.1"}
        times_us = tuple((1.5 if at >= 8 else 1.0) * (10 + (at + n) % 3 / 100) for n in range(3))
        ordinary = {
            "versions": versions,
            "times_us": times_us,
            "at": f"2026-01-{at + 1:02d}T03:00:00Z",
        }
        return line(session=f"{at:016x}", **(ordinary | changes))

    lost: dict[str, Any] = {"times_us": (), "outcome": Outcome.OUT_OF_MEMORY}
    slow: dict[str, Any] = {"injected": "delay:200%", "times_us": (30.0,)}
    lines = [night(at, **{14: lost, 15: slow}.get(at, {})) for at in range(16)]
    return nights.machine("tpu/4r", Read(lines=tuple(lines)))


def _case() -> Picture:
    machine = _machine()
    return case_history(machine, machine.cases[0])


PICTURES: Mapping[str, Callable[[], Picture | None]] = {
    "all": chart,
    "bandwidth": lambda: bandwidth([_session()]),
    "comparison": lambda: comparison(_session()),
    "published": lambda: published(
        [read_published(ROOT / "baselines/tpu-v2/128r/published.all_reduce.marsggbo-2019.json")]
    ),
    "steps": lambda: steps(_timed("dense")),
    "strategies": lambda: strategies(_timed("cnn", "mirrored")),
    "memory": lambda: memory(compiled_session(program(4096, 8192), program(8192, None))),
    "launches": lambda: launches(
        session(replace(verdict(4096, 6.0), now=build.summary(times_s=(1e-3, 1.1e-3))))
    ),
    "processes": lambda: processes(_group()),
    "nights": _case,
    "ratios": lambda: ratios(_machine()),
}


def _text(name: str) -> str:
    picture = PICTURES[name]()
    assert picture is not None
    spec = specification(picture, 720)
    del spec["config"]
    return json.dumps(spec, indent=1) + "\n"


@pytest.mark.parametrize("name", PICTURES)
def test_a_chart_is_drawn_as_it_was_looked_at(name: str) -> None:
    assert _text(name) == (GOLDEN / f"{name}.json").read_text()


def test_every_file_is_of_a_chart() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(PICTURES)


if __name__ == "__main__":
    for each in PICTURES:
        (GOLDEN / f"{each}.json").write_text(_text(each))
