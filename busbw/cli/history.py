"""`busbw history DIR`: show what sessions measured over time, by case.

Reads the history that `--history` appends to, and changes nothing in it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from busbw.history.levels import CaseHistory, MachineHistory
from busbw.history.lines import wrong_values_text
from busbw.model.words import Outcome, plural, seconds_text
from busbw.report.renderers import render
from busbw.report.table import Column, Row, Table, TextLine
from busbw.session.arguments import parse_path

from . import Commands, add_baselines, add_command, add_machine
from .sessions import select_machines


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = add_command(
        commands,
        "history",
        run,
        help="Show the times of all earlier sessions, and since when a case is slower",
        description="Show what sessions measured over time, for each case: its usual time, its "
        "newest time, and when and why the usual time changed. Reads the folder that busbw run "
        "--history=DIR appends to.",
        example="busbw history history",
    )
    folder = "The folder given to busbw run --history"
    parser.add_argument("folder", type=parse_path, metavar="DIR", help=folder)
    add_machine(parser)
    add_baselines(parser)


def run(options: argparse.Namespace) -> int:
    for history in select_machines(options.folder, options.baselines, name=options.machine):
        print("\n".join(_lines(history)))
    return 0


def _name_cases(cases: Sequence[CaseHistory]) -> Iterator[tuple[str, CaseHistory]]:
    """Yield each case with its name, and with the protocol if it was measured by several."""
    counts = Counter((case.series, case.case.name) for case in cases)
    for case in cases:
        several = counts[case.series, case.case.name] > 1
        yield f"{case.case.name} ({case.case.protocol})" if several else case.case.name, case


# How a figure of each is written.
_COLUMNS: Mapping[str, Callable[..., str]] = {
    "case": str,
    "sessions": str,
    "level": seconds_text,
    "spread": lambda share: f"{100 * share:.2g} %",
    "newest": seconds_text,
    "ratio": "{:.3f}".format,
    "NOISY": str,
    "baseline": str,
}


def _lines(machine: MachineHistory) -> list[str]:
    outcomes = ", ".join(f"{count} {name}" for name, count in machine.outcomes.items())
    lines = [f"{machine.folder}: {plural(len(machine.sessions), 'session')} ({outcomes})"]
    # What was measured by itself is one table, whatever the framework.
    tables: dict[str, list[CaseHistory]] = {}
    for history in machine.cases:
        title = f"{history.series.text}:" if history.series.stack else ""
        tables.setdefault(title, []).append(history)
    for title, cases in tables.items():
        lines += ["", title] if title else []
        lines += render("text", _table(cases))
        for series in dict.fromkeys(history.series for history in cases):
            lines += [
                f"all cases of {series.text} together: {history.sentence}"
                for history in machine.shared.get(series, ())
            ]
    return [*lines, ""]


def _table(cases: Sequence[CaseHistory]) -> Table:
    columns = (
        Column(
            head, head, text=text, fits=True, left_aligned=head == "case", gap=2, width=len(head)
        )
        for head, text in _COLUMNS.items()
    )
    rows = []
    for name, history in _name_cases(cases):
        ratio = history.newest_s / history.level_s if history.newest_s and history.level_s else None
        noisy, date = history.outcomes.get(Outcome.NOISY, 0), history.baseline_date or None
        cells = (
            name,
            len(history.times_s),
            history.level_s,
            history.spread,
            history.newest_s,
            ratio,
            noisy,
            date,
        )
        sentences = [change.sentence for change in history.changes]
        wrong = wrong_values_text(history.sessions.values())
        notes = tuple(map(TextLine, [*sentences, *([wrong] if wrong else [])]))
        rows.append(Row(dict(zip(_COLUMNS, cells, strict=True)), notes=notes))
    return Table(columns=tuple(columns), rows=tuple(rows), missing="-")
