"""`busbw doctor`: check a new machine in ten minutes, and keep all results in one file.

Measures in sessions of its own, without baselines.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from busbw import __version__, wire
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.commands import Commands, add_command, check_file, json_with, usage_error, write_file
from busbw.model.case import GridError
from busbw.model.limits import moment_text
from busbw.model.words import Device, Outcome, plural, seconds_text
from busbw.report.answer import answer_lines
from busbw.report.table import percent_text
from busbw.session import option, selection
from busbw.session.display import Display, Screen
from busbw.session.options import OPTIONS, given
from busbw.session.outputs import document_of
from busbw.session.phases import Surroundings, judged
from busbw.session.settings import settings_of
from busbw.session.state import Collected, Judged, Measured
from busbw.stats.launches import launch_time_s

ORDER = -1

# What each check asks, and the options of its session.
CHECKS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "collectives": (
        "every collective, proved",
        {"collectives": ",".join(COLLECTIVES), "payloads": "1M"},
    ),
    "dtypes": (
        "every dtype and reduce operation, by exact values",
        {"dtypes": ",".join(DTYPES), "reduce_ops": ",".join(REDUCE_OPS), "payloads": "1M"},
    ),
    "placement": ("in place and out of place", {"placement": "in_place,out_of_place"}),
    "host": ("the host's clock", {"clock": "host"}),
    "device": ("the device's clock", {"clock": "device"}),
    "dispatch": ("a single call", {"clock": "dispatch"}),
    "curve": ("bandwidth by payload", {"payloads": "1K:256M:4", "launches": "3"}),
    "memory": ("where memory ends", {"payloads": "512M:64G"}),
    "noise": ("20 launches of three payloads", {"payloads": "1K,1M,64M", "launches": "20"}),
}
_USUAL = {"payloads": "1M,64M", "launches": "1"}

# The differences that are reported: between the two clocks, to the bandwidth of the links, and
# between launches.
_CLOCKS_DIFFER = 0.05
_OF_CEILING = 0.5
_APART = {Device.CPU: 0.3, Device.GPU: 0.04, Device.TPU: 0.04}

# Their texts are given to sessions as they are.
_SHARED = tuple(replace(one, parse=str) for one in OPTIONS if one.name in ("device", "frameworks"))


class _Messages(Screen):
    """Prints what a session waits for; its other lines begin with the name of busbw."""

    def line(self, text: str) -> None:
        if not text.startswith("busbw"):
            print(text, file=sys.stderr, flush=True)


def add_to(commands: Commands) -> None:
    add_command(
        commands,
        "doctor",
        run,
        *_SHARED,
        option.file_option(
            "output", "Write the results to FILE", short="-o", default="busbw-doctor.json"
        ),
        help="Check a new machine: clocks, correctness, memory, noise, bandwidth",
        description="Check a new machine in about ten minutes: that every collective, dtype and "
        "reduce operation gives exact results, that the clocks agree, how the bandwidth compares "
        "with the links, at which payload memory ends, and how noisy launches are. Prints a line "
        "for each check, and exits with code 1 if one of them found something unexpected. All "
        "results go into one file. Baselines are neither read nor written.",
        example="busbw doctor --device=gpu",
    )


def run(options: argparse.Namespace) -> int:
    check_file("--output", options.output, "a file of busbw doctor", json_with("checks"))
    asked = {"device": options.device, "frameworks": options.frameworks, **_USUAL}
    with usage_error(option.UsageError):
        settings_of(given(Path(), **asked))
    sessions: dict[str, Judged] = {}
    checks: list[dict[str, object]] = []
    began = moment_text(datetime.now(UTC))
    head = {"document": "busbw doctor", "busbw": __version__, "began": began}
    for name, (question, own) in CHECKS.items():
        print(f"{question}: ", end="", flush=True)
        try:
            sessions[name] = _measured({**asked, **own})
            problems = list(_problems(name, sessions))
            results = document_of(sessions[name])
        except (option.UsageError, GridError) as error:
            problems, results = [str(error)], None
        print(wire.printable("; ".join(problems) or _outcomes(sessions[name])), flush=True)
        checks.append({"name": name, "problems": problems, "results": results})
        # Written after each check, so that an interrupt keeps what was measured.
        code = write_file(
            json.dumps({**head, "checks": checks}) + "\n", options.output, "busbw doctor: "
        )
        if code:
            return code
    print(f"the results are in {options.output}")
    return int(any(check["problems"] for check in checks))


def _measured(asked: Mapping[str, str]) -> Judged:
    """Measure without baselines. Raises UsageError and GridError."""
    with tempfile.TemporaryDirectory(prefix="busbw-doctor.") as folder:
        options = given(Path(folder), **asked)
        # In CI a case without a baseline would fail.
        options = replace(options, ini={**options.ini, "require_baselines": "false"})
        collected = Collected(settings=settings_of(options))
        collected, specs = selection.with_specs(collected)
        found = judged(collected, specs, Surroundings(display=Display(_Messages())))
    if not isinstance(found.observed, Measured):
        raise option.UsageError(found.session.text)
    return found


def _outcomes(session: Judged) -> str:
    """Return how many cases have each outcome; none has a baseline here."""
    outcomes = [verdict.outcome.value for verdict in session.verdicts.values()]
    text = ", ".join(f"{n} {outcome}" for outcome, n in Counter(outcomes).items())
    return text.replace(Outcome.NO_BASELINE.value, "measured")


def _problems(name: str, sessions: Mapping[str, Judged]) -> Iterator[str]:
    """Yield what the newest session, that of the check `name`, found and should not have."""
    session, verdicts = sessions[name], tuple(sessions[name].verdicts.values())
    yield from (line.text for line in answer_lines(verdicts, session.session)[:-1])
    odd = [Outcome.SKIPPED] if name == "memory" else [Outcome.SKIPPED, Outcome.OUT_OF_MEMORY]
    texts = [(one.text, one) for one in verdicts if one.outcome in odd and not one.failed]
    texts += [(note, one) for one in verdicts for note in one.notes]
    for text in dict.fromkeys(text for text, _ in texts):
        cases = [one.spec.id for other, one in texts if other == text]
        yield f"{plural(len(cases), 'case')}, first {cases[0]}: {text}"
    if name == "device" and "host" in sessions:
        yield from _clocks(sessions["host"], session)
    if name in _OWN:
        yield from _OWN[name](session)


def _times(session: Judged) -> dict[str, float]:
    """Return the seconds of each measured case, whatever the clock, by the case's name."""
    found = [(one.case, one.now) for one in session.verdicts.values()]
    return {case.name: now.median_s for case, now in found if case is not None and now is not None}


def _clocks(host: Judged, device: Judged) -> Iterator[str]:
    device_times_s = _times(device)
    for name, host_s in _times(host).items():
        device_s = device_times_s.get(name, host_s)
        if abs(host_s / device_s - 1) > _CLOCKS_DIFFER:
            yield (
                f"{name} takes {seconds_text(host_s)} by the host's clock, "
                f"{seconds_text(device_s)} by the device's"
            )


def _links(session: Judged) -> Iterator[str]:
    measured = [one for one in session.verdicts.values() if one.ceiling_share is not None]
    for name, group in itertools.groupby(measured, lambda one: one.case and one.case.group_name):
        share = max(one.ceiling_share or 0.0 for one in group)
        if share < _OF_CEILING:
            yield f"{name} reaches {percent_text(share)} % of the bandwidth of the links"


def _memory(session: Judged) -> Iterator[str]:
    verdicts = session.verdicts.values()
    fitting = {one.case.group_name for one in verdicts if one.case is not None and one.now}
    for one in verdicts:
        if one.case is not None and one.case.group_name not in fitting:
            yield f"{one.spec.id} does not fit: {one.text}"


def _noise(session: Judged) -> Iterator[str]:
    assert isinstance(session.observed, Measured)
    for spec, measured in session.observed.measurements.items():
        times_s = [launch_time_s(run) for run in measured.runs]
        apart = max(times_s) / min(times_s) - 1 if times_s else 0.0
        if apart > _APART[session.observed.environment.device]:
            yield (
                f"{spec.id} takes {seconds_text(min(times_s))} to {seconds_text(max(times_s))} in "
                f"{plural(len(times_s), 'launch')}, {percent_text(apart)} % apart"
            )


# What a check looks for besides outcomes and notes.
_OWN = {"curve": _links, "memory": _memory, "noise": _noise}
