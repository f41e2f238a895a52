"""`busbw doctor`: check a new machine in ten minutes, and write all results into one file.

Each check runs a session of its own, without baselines, and looks for problems in the verdicts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from busbw import __version__, grid, storage, wire
from busbw.cli import Subparsers, add_command, check_output_file
from busbw.judge.session import outcome_counts_text
from busbw.model.case import GridError
from busbw.model.field_types import moment_text
from busbw.model.words import DeviceClass, Outcome, plural, seconds_text
from busbw.report.conclusion import conclusion_lines
from busbw.report.table import percent_text
from busbw.session.command_line import make_options, parse_options
from busbw.session.measure import Display
from busbw.session.option import UsageError, parse_path, parse_text
from busbw.session.record import results_document
from busbw.session.run import measure_and_judge, run_session
from busbw.session.state import CollectedSession, JudgedSession, MeasuredSession

# By the name of a check: its description, and the options of its session.
CHECKS: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("checks.toml").read_text(encoding="utf-8")
)

# The sessions so far, by the names of their checks.
SessionsByCheck: TypeAlias = Mapping[str, JudgedSession]

# Differences that are problems: more than this between the two clocks, less than this share of the
# links' bandwidth, and more than this between the fastest and the slowest launch.
_MAX_CLOCK_DIFFERENCE = 0.05
_MIN_CEILING_SHARE = 0.5
_MAX_LAUNCH_SPREAD = {DeviceClass.CPU: 0.3, DeviceClass.GPU: 0.04, DeviceClass.TPU: 0.04}


class _WaitingDisplay(Display):
    """A display that shows nothing of a session but the messages that the session waits.

    The other messages of a session begin with ``busbw``, and are dropped.
    """

    def write_line(self, text: str) -> None:
        """Write `text` to standard error, unless `text` begins with ``busbw``."""
        if not text.startswith("busbw"):
            print(text, file=sys.stderr, flush=True)


def add_subcommand(commands: Subparsers) -> None:
    """Add the subcommand ``doctor`` and its options to the commands of busbw."""
    parser = add_command(
        commands,
        "doctor",
        run,
        help="Check a new machine: clocks, correctness, memory, noise, bandwidth",
        description="Check a new machine in about ten minutes: that every collective, dtype and "
        "reduce operation gives exact results, that the clocks agree, how the bandwidth compares "
        "with the links, at which payload memory ends, and how noisy launches are. Prints a line "
        "for each check, and exits with code 1 if one of them found something unexpected. All "
        "results go into one file. Baselines are neither read nor written.",
        example="busbw doctor --device=gpu",
    )
    parser.add_argument(
        "--device",
        type=parse_text,
        default="auto",
        metavar="{auto,cpu,gpu,tpu}",
        help="Check this kind of device (default: a TPU if there is one, else a GPU, else the CPU)",
    )
    parser.add_argument(
        "--frameworks",
        type=parse_text,
        default="auto",
        metavar="LIST",
        help="Check these frameworks, as a comma list (default: those that are installed)",
    )
    parser.add_argument(
        *("-o", "--output"),
        type=parse_path,
        default=Path("busbw-doctor.json"),
        metavar="FILE",
        help="Write the results to FILE (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Run all checks of ``busbw doctor``, and return the exit code: 1 if a check shows a problem.

    A line is printed for each check. The results of all checks are written into the file
    `options.output`. Raises OSError if the file cannot be written.
    """
    check_output_file(
        "--output",
        options.output,
        "a file of busbw doctor",
        lambda text: text.startswith('{"document": "busbw doctor"'),
    )
    shared = [f"--device={options.device}", f"--frameworks={options.frameworks}"]
    # The options of a check replace these payloads and launches.
    shared += ["--payloads=1M,64M", "--launches=1"]
    make_options(parse_options(shared), Path())
    sessions: dict[str, JudgedSession] = {}
    checks: list[dict[str, object]] = []
    document = {
        "document": "busbw doctor",
        "busbw": __version__,
        "began": moment_text(datetime.now(UTC)),
        "checks": checks,
    }
    for name, check in CHECKS.items():
        print(f"{check['description']}: ", end="", flush=True)
        try:
            sessions[name] = _run_check([*shared, *check["options"]])
            problems = list(_find_problems(name, sessions))
            results = results_document(sessions[name])
        except (UsageError, GridError) as error:
            problems, results = [str(error)], None
        # No case of a check has a baseline, so that NO_BASELINE is the outcome of a measured case.
        text = "; ".join(problems) or outcome_counts_text(sessions[name].verdicts.values()).replace(
            Outcome.NO_BASELINE.value, "measured"
        )
        print(wire.escape_unprintable(text), flush=True)
        checks.append({"name": name, "problems": problems, "results": results})
        # The file is written after each check, so that the results survive an interruption.
        storage.write(options.output, json.dumps(document) + "\n")
    print(f"the results are in {options.output}")
    return int(any(written["problems"] for written in checks))


def _run_check(arguments: Sequence[str]) -> JudgedSession:
    """Run the session of a check, without baselines, and return the judged session.

    `arguments` are the session's options, such as ``--clock=host``. Raises GridError if the options
    select no case on this machine, and UsageError if an option is wrong or nothing was measured.
    """
    with tempfile.TemporaryDirectory(prefix="busbw-doctor.") as folder:
        # In CI baselines are required by default, and no case has a baseline here.
        options = make_options(
            parse_options(arguments), Path(folder), {"require_baselines": ["false"]}
        )
        collected_session = CollectedSession(options=options)
        session = run_session(
            collected_session, grid.select_specs(options), _WaitingDisplay(), measure_and_judge
        )
    if not isinstance(session.observations, MeasuredSession):
        raise UsageError(session.session_verdict.text)
    return session


def _find_problems(check: str, sessions: SessionsByCheck) -> Iterator[str]:
    """Yield a sentence for each problem that a check shows.

    `check` is the name of the check, such as ``memory``, and `sessions` has the sessions of all
    checks so far, by check. The check ``device`` is also compared with the check ``host``.
    """
    session = sessions[check]
    verdicts = tuple(session.verdicts.values())
    for line in conclusion_lines(verdicts, session.session_verdict)[:-1]:
        yield line.text
    outcomes = [Outcome.SKIPPED] if check == "memory" else [Outcome.SKIPPED, Outcome.OUT_OF_MEMORY]
    cases_by_text: dict[str, list[str]] = defaultdict(list)
    for verdict in verdicts:
        is_skipped = verdict.outcome in outcomes and not verdict.failed
        for text in (*[verdict.text] * is_skipped, *verdict.notes):
            cases_by_text[text].append(verdict.spec.id)
    for text, cases in cases_by_text.items():
        yield f"{plural(len(cases), 'case')}, first {cases[0]}: {text}"
    if check in _PROBLEM_FINDERS:
        yield from _PROBLEM_FINDERS[check](sessions)


def _clock_problems(sessions: SessionsByCheck) -> Iterator[str]:
    """Yield a sentence for each case whose times by two clocks differ by more than 5 %.

    The time in the check ``device`` (the device's clock) is compared with the time in the check
    ``host`` (the host's clock).
    """
    host_verdicts = sessions["host"].verdicts if "host" in sessions else {}
    for spec, verdict in sessions["device"].verdicts.items():
        host_verdict = host_verdicts.get(replace(spec, clock="host"))
        if host_verdict and host_verdict.now and verdict.now:
            host_s, device_s = host_verdict.now.median_s, verdict.now.median_s
            if abs(host_s / device_s - 1) > _MAX_CLOCK_DIFFERENCE:
                yield (
                    f"{spec.id} takes {seconds_text(host_s)} by the host's clock, "
                    f"{seconds_text(device_s)} by the device's"
                )


def _bandwidth_problems(sessions: SessionsByCheck) -> Iterator[str]:
    """Yield a sentence for each family of cases that uses less than half of the links' bandwidth.

    The cases are those of the check ``curve``. The payload with the highest bandwidth counts for
    its family.
    """
    timed_verdicts = [v for v in sessions["curve"].verdicts.values() if v.ceiling_share]
    for name, group in itertools.groupby(timed_verdicts, lambda v: v.case and v.case.family_name):
        share = max(verdict.ceiling_share or 0.0 for verdict in group)
        if share < _MIN_CEILING_SHARE:
            yield f"{name} reaches {percent_text(share)} % of the bandwidth of the links"


def _memory_problems(sessions: SessionsByCheck) -> Iterator[str]:
    """Yield a sentence for each case of a family in which no payload fits into memory.

    The cases are those of the check ``memory``. If at least one payload of a family fits, it is no
    problem that larger payloads do not fit.
    """
    verdicts = sessions["memory"].verdicts.values()
    fitting = {v.case.family_name for v in verdicts if v.case and v.now}
    for verdict in verdicts:
        if verdict.case and verdict.case.family_name not in fitting:
            yield f"{verdict.spec.id} does not fit: {verdict.text}"


def _noise_problems(sessions: SessionsByCheck) -> Iterator[str]:
    """Yield a sentence for each case of the check ``noise`` whose launches differ too much.

    On a CPU the slowest launch may take 30 % longer than the fastest launch, and on other devices
    4 % longer.
    """
    observations = sessions["noise"].observations
    assert isinstance(observations, MeasuredSession)
    for spec, verdict in sessions["noise"].verdicts.items():
        times = verdict.now
        spread = times.worst_s / times.best_s - 1 if times else 0.0
        if times and spread > _MAX_LAUNCH_SPREAD[observations.environment.device]:
            yield (
                f"{spec.id} takes {seconds_text(times.best_s)} to {seconds_text(times.worst_s)} in "
                f"{plural(len(times.times_s), 'launch')}, {percent_text(spread)} % apart"
            )


# By the name of a check, the function that yields its problems besides outcomes and notes.
_PROBLEM_FINDERS = {
    "device": _clock_problems,
    "curve": _bandwidth_problems,
    "memory": _memory_problems,
    "noise": _noise_problems,
}
