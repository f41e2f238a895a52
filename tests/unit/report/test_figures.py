"""A figure of a verdict is one declaration: in tables, results, CSV, metrics, JUnit, pages."""

from __future__ import annotations

import csv
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from busbw import extensions, storage
from busbw.model.words import Outcome
from busbw.report.figures import TIMED_FIGURES, figure_values
from tests.helpers import build

ROOT = Path(__file__).parents[3]
FIGURE = """
TIMED_FIGURES += (
    Figure(
        "median_minutes",
        "minutes",
        text="{:.1e}".format,
        compute=lambda verdict: verdict.now.median_s / 60 if verdict.now else None,
    ),
)
"""
SCHEMA = "from tests.unit.report.schemas import text; print(text())"


def test_every_figure_of_a_case_has_a_unique_name() -> None:
    extra = itertools.chain(*extensions.load_table("FIGURES").values())
    names = [figure.id for figure in (*TIMED_FIGURES, *extra)]
    assert len(set(names)) == len(names)


def test_a_case_without_times_has_no_figures() -> None:
    assert set(figure_values(build.verdict(Outcome.FAILED, now=None)).values()) == {None}


@pytest.mark.exhaustive
@pytest.mark.sessions
def test_a_new_figure_is_in_terminal_results_junit_page_metrics_and_csv(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    skipped = shutil.ignore_patterns("__pycache__", "data", "*.gz")
    for name in ("busbw", "perf", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=skipped)
    shutil.copy(ROOT / "conftest.py", tmp_path)
    with (tmp_path / "busbw/report/figures.py").open("a") as declarations:
        declarations.write(FIGURE)

    def run(*words: str) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            storage.MACHINE_VARIABLE: str(tmp_path),
        }
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            check=True,
            cwd=tmp_path,
            env=environment,
            text=True,
        )
        return done.stdout

    options = ("--frameworks=fake", "--payloads=1M", "--launches=1", "-p", "no:cacheprovider")
    written = ("--junitxml=j.xml", "--page=p.html", "--metrics=m.prom", "--results=r.json")
    output = run("-m", "pytest", "perf", *options, *written)
    (head, _, row) = next(
        output.splitlines()[n : n + 3]
        for n, line in enumerate(output.splitlines())
        if " minutes " in line
    )
    case = json.loads((tmp_path / "r.json").read_text())["cases"][0]
    minutes = case["now"]["median_s"] / 60
    assert case["figures"]["median_minutes"] == minutes
    assert head.split()[-2:] == ["minutes", "outcome"] and f"{minutes:.1e}" in row
    junit = ElementTree.parse(tmp_path / "j.xml").iter("property")
    properties = {element.get("name"): element.get("value") for element in junit}
    assert properties["median_minutes"] == str(minutes)
    assert "minutes" in (tmp_path / "p.html").read_text()
    assert "busbw_case_median_minutes{" in (tmp_path / "m.prom").read_text()
    assert '"median_minutes": {"type": "number"}' in run("-c", SCHEMA)
    run("-m", "pytest", "perf", *options, "--results=r.csv")
    (row_of,) = csv.DictReader((tmp_path / "r.csv").read_text().splitlines())
    assert float(row_of["median_minutes"]) > 0
