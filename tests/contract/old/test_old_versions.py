"""Older versions of the frameworks, each under a separate interpreter for `--python`.

Run by ``tox -e old``, which makes the interpreters and names them in BUSBW_OLD, such as
``jax=/venvs/jax-0.5.0/bin/python tensorflow=/venvs/tensorflow-2.16/bin/python``. Without the
variable this file is not collected.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Interpreters have theirs, whatever is installed here.
pytestmark = pytest.mark.framework

ROOT = Path(__file__).parents[3]
# What compilers leave on the heap, up to 150 MiB, is small compared with the last payload.
PAYLOADS = {"jax": ("4K", "1M", "64M"), "tensorflow": ("4K", "1M", "16M")}
TIMEOUT_S = 600
INTERPRETERS = os.environ["BUSBW_OLD"].split()

# What a framework measures, beside its default: a name, then options.
GRIDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "jax": {
        "all_reduce": ("--placement=in_place,out_of_place",),
        "others": ("--collectives=all_gather,reduce_scatter,all_to_all,permute",),
        "along an axis": ("--mesh=2x2", "--axes=y"),
        "dispatch": ("--clock=dispatch",),
    },
    "tensorflow": {
        "all_reduce": ("--strategies=ring,reduction_to_one_device,hierarchical_copy",),
        "dispatch": ("--clock=dispatch",),
    },
}


@dataclass(frozen=True, kw_only=True)
class Session:
    """The results of a session, and the interpreter that its workers had to use."""

    framework: str
    python: str
    results: dict[str, Any]

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Every Run of every case."""
        return [run for case in self.results["cases"] for run in case["launches"]]


SESSIONS = [
    pytest.param((interpreter, grid), id=f"{Path(interpreter).parents[1].name}-{grid}")
    for interpreter in INTERPRETERS
    for grid in GRIDS[interpreter.partition("=")[0]]
]


def measured(interpreter: str, results: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Measure a grid in one launch, with misleading packages in the user's PYTHONPATH."""
    command = [sys.executable, "-m", "pytest", "perf/", "-p", "no:cacheprovider", "--device=cpu"]
    command += [
        f"--frameworks={interpreter.partition('=')[0]}",
        f"--python={interpreter}",
        "--launches=1",
    ]
    payloads = PAYLOADS[interpreter.partition("=")[0]]
    command += [f"--payloads={','.join(payloads)}", f"--results={results}", *options]
    environment = {name: text for name, text in os.environ.items() if name != "CI"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *sys.path])
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module", params=SESSIONS)
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Return a session that has measured one of the grids."""
    interpreter, grid = request.param
    framework, _, python = interpreter.partition("=")
    results = tmp_path_factory.mktemp("old") / "results.json"
    done = measured(interpreter, results, *GRIDS[framework][grid])
    assert done.returncode == 0, done.stdout + done.stderr
    return Session(framework=framework, python=python, results=json.loads(results.read_text()))


def test_every_case_of_an_old_framework_is_measured_and_the_proof_accepts_its_program(
    session: Session,
) -> None:
    assert {case["outcome"] for case in session.results["cases"]} == {"NO_BASELINE"}
    assert {case["id"].rpartition("-")[2] for case in session.results["cases"]} == {
        *PAYLOADS[session.framework]
    }
    assert all(run["proof"]["collectives"] for run in session.runs)
    assert all(run["values_checked"] > 0 for run in session.runs)


def test_only_all_to_all_programs_of_an_old_framework_may_copy_their_payload(
    session: Session,
) -> None:
    for case in session.results["cases"]:
        for run in case["launches"]:
            if case["case"]["collective"] != "all_to_all" and run["clock"] != "dispatch":
                assert run["proof"]["payload_copies"] == run["proof"]["copies_per_call"] == 0


def test_the_predicted_memory_of_an_old_framework_is_within_25_percent_of_its_peak_memory(
    session: Session,
) -> None:
    for run in session.runs:
        assert 0.75 < run["predicted_memory_bytes"] / run["peak_memory_bytes"] < 1.25


def test_a_session_with_the_option_python_records_the_versions_of_its_interpreter(
    session: Session,
) -> None:
    environment = Path(session.python).parents[1]
    code = f"import platform, {session.framework} as f; print(f.__version__, f.__file__)"
    command = [session.python, "-c", f"{code}; print(platform.python_version())"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    version, file, python = done.stdout.split()
    assert Path(file).is_relative_to(environment)
    for run in session.runs:
        home = os.path.expanduser("~")
        assert run["framework_path"] == str(Path(file).parent).replace(home, "~")
        assert run["versions"][session.framework] == version
        assert run["versions"]["python"] == python


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_an_old_framework_measures_by_the_device_clock_or_says_that_this_clock_is_missing(
    interpreter: str, tmp_path: Path
) -> None:
    done = measured(interpreter, tmp_path / "results.json", "--clock=device", "--payloads=1M")
    refused = (
        done.returncode == 4 and "has no clock device for all_reduce on the CPU" in done.stderr
    )
    assert done.returncode == 0 or refused, done.stdout + done.stderr
