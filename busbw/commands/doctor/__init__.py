"""`busbw doctor`: check a new machine in ten minutes, and list what is not as expected.

Measures in sessions of its own, without baselines, and keeps all of them in one file, which
`busbw doctor --read FILE` shows on another machine. It holds no secrets: homes are `~`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import busbw
from busbw import files, wire
from busbw.collectives import COLLECTIVES, REDUCE_OPS
from busbw.collectives.base import DTYPES
from busbw.commands import (
    Commands,
    UsageError,
    add_command,
    check_file,
    json_with,
    usage_error,
    write_file,
)
from busbw.model import variables
from busbw.model.case import GridError
from busbw.model.limits import check_some
from busbw.model.words import Clock
from busbw.report.reading import DocumentError, Session, session_from
from busbw.report.renderers import rendered
from busbw.report.results import Results
from busbw.session import forms, option, selection
from busbw.session.display import Display, Screen
from busbw.session.options import OPTIONS, given
from busbw.session.outputs import document_of
from busbw.session.phases import Surroundings, judged
from busbw.session.settings import settings_of
from busbw.session.state import Collected, Measured

from . import recordings
from .findings import CHECKS, DOCUMENT, Checked, facts, findings, notes, tables

ORDER = -1
_DESCRIPTION = """
Check a new machine in about ten minutes: that the clocks agree; that every collective, dtype and
reduce operation gives exact results; that programs run out of memory at the predicted size; how
noisy launches are; and how the bandwidth compares with the links and with published figures. Lists
everything unexpected, and then exits with code 1. All results go into one file, from which secrets
are removed; busbw doctor --read shows the file on another machine. Baselines are neither read nor
written.
"""
_ALL = {"collectives": COLLECTIVES, "dtypes": DTYPES, "reduce_ops": REDUCE_OPS}
_USUAL = {"payloads": "1M,64M", "launches": "1"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Examined:
    """The file: every check with its whole results."""

    document: str = DOCUMENT
    version: int = wire.VERSION
    busbw: str
    began: str
    checks: Annotated[tuple[Checked, ...], check_some]


def _of_session(name: str, help: str) -> option.Option:
    """An option of sessions, whose text is given to them as it is."""
    (found,) = (one for one in OPTIONS if one.name == name)

    def checked(text: str) -> str:
        found.parse(text)
        return text

    return replace(found, parse=checked, help=help)


_OPTIONS = (
    _of_session(
        "device",
        "Check this kind of device. auto takes a TPU if there is one, else a GPU, else the CPU",
    ),
    _of_session(
        "frameworks", "Check these frameworks, as a comma list. auto takes those that are installed"
    ),
    option.Option(
        name="checks",
        parse=forms.words(tuple(CHECKS)),
        metavar="LIST",
        help=f"Make only these checks, as a comma list of {', '.join(CHECKS)} (default: all)",
    ),
    option.file_option(
        "output", "Write the results to FILE", short="-o", default="busbw-doctor.json"
    ),
    option.file_option("read", "Show the results in FILE, and measure nothing"),
)


def add_to(commands: Commands) -> None:
    add_command(
        commands,
        "doctor",
        run,
        *_OPTIONS,
        help="Check a new machine: clocks, correctness, memory, noise, bandwidth",
        description=_DESCRIPTION,
        example="busbw doctor --device=gpu",
    )


def run(options: argparse.Namespace) -> int:
    if options.read is not None:
        return _shown(_read(options.read))
    check_file("--output", options.output, "a file of busbw doctor", json_with("checks"))
    began = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00}"
    checks: list[Checked] = []
    for name in options.checks or CHECKS:
        checks.append(_checked(name, options))
        found = Examined(busbw=busbw.__version__, began=began, checks=tuple(checks))
        # After each, so that what was measured is kept whatever comes next.
        code = write_file(json.dumps(wire.to_json(found)) + "\n", options.output, "busbw doctor: ")
        if code:
            return code
    return _shown(found, options.output)


def _read(path: Path) -> Examined:
    with usage_error(files.InputError, wire.WireError, where=f"{path}: "):
        document = wire.parsed(files.content(path))
        wire.check_document(document, DOCUMENT, "record it again with busbw doctor")
        return wire.from_json(Examined, document, "document")


def _checked(name: str, options: argparse.Namespace) -> Checked:
    question, own = CHECKS[name]
    print(f"busbw doctor: {question}", flush=True)
    begun_s, problem, results = time.monotonic(), "", None
    kept: tuple[recordings.Recording, ...] = ()
    asked = {one: ",".join(_ALL[one]) if value == "*" else value for one, value in own.items()}
    asked = {"device": options.device, "frameworks": options.frameworks, **_USUAL, **asked}
    with tempfile.TemporaryDirectory(prefix="busbw-doctor.") as folder:
        try:
            results = _measured(Path(folder), asked)
            kept = recordings.kept(Path(folder)) if name == Clock.DEVICE.value else ()
        except (option.UsageError, GridError) as error:
            problem = str(error)
    seconds = time.monotonic() - begun_s
    return Checked(name=name, seconds=seconds, problem=problem, results=results, recordings=kept)


def _measured(folder: Path, asked: Mapping[str, str]) -> Results:
    """A session of these options in the empty `folder`, without baselines."""
    options = given(folder, **asked)
    # In CI a case without a baseline would fail.
    options = replace(options, ini={**options.ini, "require_baselines": "false"})
    collected = Collected(settings=settings_of(options))
    collected, specs = selection.with_specs(collected, None)
    if asked.get("clock") == Clock.DEVICE.value:
        os.environ[variables.RECORDINGS] = str(folder)
    try:
        found = judged(collected, specs, Surroundings(display=Display(_Lines())))
    finally:
        os.environ.pop(variables.RECORDINGS, None)
    if not isinstance(found.observed, Measured):
        raise option.UsageError(found.session.text)
    return wire.from_json(Results, document_of(found), "results")


class _Lines(Screen):
    """What a session waits for; its own header and passes begin with its name."""

    def line(self, text: str) -> None:
        if not text.startswith("busbw"):
            print(text, flush=True)


def _sessions(checks: Sequence[Checked]) -> Iterator[tuple[str, Session]]:
    for one in checks:
        if one.name not in CHECKS:
            raise UsageError(f"{one.name[:60]!r} is no check; known are {', '.join(CHECKS)}")
        if one.results is not None:
            with usage_error(DocumentError, wire.WireError, where=f"{one.name}: "):
                found = session_from(one.results, one.name)
            if not isinstance(found, Session):
                raise UsageError(f"{one.name}: these results were compiled, not measured")
            yield one.name, found


def _shown(found: Examined, path: Path | None = None) -> int:
    sessions = dict(_sessions(found.checks))
    lines = [f"busbw doctor, {found.began}, busbw {found.busbw}", *facts(sessions)]
    lines += rendered("text", *tables(found.checks, sessions))
    lines += ["", *notes(found.checks, sessions), ""]
    odd = findings(found.checks, sessions)
    lines += [f"not as expected: {len(odd) or 'nothing'}", *(f"- {one}" for one in odd)]
    print("\n".join(map(wire.printable, lines)))
    if path is not None:
        print(f"all of it is in {path}: send it with a report to who develops busbw")
    return 1 if odd else 0
