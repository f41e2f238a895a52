"""`busbw history DIR`: show the times that sessions measured for each case.

The command reads the history that `--history` appends to, and does not change the history. Other
commands use the functions of this module to read histories, and files that `--results` wrote.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from busbw import storage, wire
from busbw.history.files import (
    HistoryError,
    machine_folders,
    read_acknowledged_changes,
    read_all_machines,
)
from busbw.history.levels import CaseHistory, MachineHistory, build_machine_history
from busbw.judge.policy import POLICIES
from busbw.model.words import Outcome, plural, seconds_text
from busbw.report.results import Results, SessionDocument, read_results
from busbw.report.table import Column, Row, Table, TextLine, render
from busbw.session.option import UsageError, as_usage_error, parse_path

from . import Subparsers, add_baselines_option, add_command, add_machine_option


def add_subcommand(commands: Subparsers) -> None:
    """Add the subcommand `history` and its options to `commands`."""
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
    add_machine_option(parser)
    add_baselines_option(parser)


def run(options: argparse.Namespace) -> int:
    """Print the history of each selected machine, and return the exit code 0."""
    for history in select_machine_histories(
        options.folder, options.baselines, name=options.machine
    ):
        outcomes = ", ".join(f"{count} {name}" for name, count in history.outcome_counts.items())
        sessions = plural(len(history.first_lines), "session")
        lines = [f"{history.folder}: {sessions} ({outcomes})"]
        print("\n".join([*lines, *render("text", *cases_tables(history)), ""]))
    return 0


def read_session_document(path: Path) -> SessionDocument:
    """Read a file that `--results` wrote, and return its session.

    Raises UsageError if the file cannot be read, or is not such a file.
    """
    with as_usage_error(storage.InputError, wire.WireError, where=f"{path}: "):
        return read_results(storage.read(path))


def read_machine_histories(
    root: Path, baselines: Path, names: Collection[str] | None = None
) -> list[MachineHistory]:
    """Read the history of each machine, and return it with the levels of its cases over time.

    Args:
        root: The folder of the history.
        baselines: The folder with the file of acknowledged changes, `acknowledged.toml`.
        names: The machines to read, by their folders in the history, such as ``tpu-v5-lite/4r``;
            None for all machines.

    Raises:
        HistoryError: A file of the history, or the file of acknowledged changes, cannot be read.

    """
    known_changes = read_acknowledged_changes(baselines)
    return [
        build_machine_history(
            name,
            lines,
            merge_within=POLICIES[lines[-1].device].session_merge_time,
            acknowledged_changes=known_changes,
        )
        for name, lines in read_all_machines(root).items()
        if lines and (names is None or name in names)
    ]


def select_machine_histories(
    root: Path | None,
    baselines: Path,
    *,
    name: str | None = None,
    sessions: Iterable[SessionDocument] = (),
) -> Sequence[MachineHistory]:
    """Read the histories of the machines that a command shows, and return them.

    If `name` is given, only this machine is shown. Otherwise the machines of `sessions` are shown
    or, without sessions, all machines of the history.

    Args:
        root: The folder of the history; None if the user named no history.
        baselines: The folder with the file of acknowledged changes, `acknowledged.toml`.
        name: The machine that --machine names, such as ``tpu-v5-lite/4r``; None for no option.
        sessions: The sessions that the command shows.

    Returns:
        The histories. The list is empty if `root` is None. The list is also empty if the history
        lacks the machines of `sessions`, and then a note on standard error says so.

    Raises:
        UsageError: The history cannot be read, is empty, or lacks the machine `name`. Or the user
            named a machine, but no history.

    """
    if root is None and name:
        raise UsageError("--machine: expected --history=DIR with it")
    if root is None:
        return ()
    of_sessions = (session.machine_folders for session in sessions if isinstance(session, Results))
    names = {name} if name else set(itertools.chain(*of_sessions))
    with as_usage_error(HistoryError):
        machines = read_machine_histories(root, baselines, names or None)
        present = ", ".join(machine_folders(root)) or "nothing"
    text = f"{root} has no {', '.join(sorted(names)) or 'sessions'}; it has {present}"
    if not machines and (name or not names):
        raise UsageError(f"--machine: {text}" if name else text)
    if not machines:
        print(f"note: {text}", file=sys.stderr)
    return machines


# The functions that write a cell, by the heading of the column.
_CELL_TEXT_BY_HEADING: Mapping[str, Callable[..., str]] = {
    "case": str,
    "sessions": str,
    "level": seconds_text,
    "spread": lambda share: f"{100 * share:.2g} %",
    "newest": seconds_text,
    "ratio": "{:.3f}".format,
    "NOISY": str,
    "baseline": str,
}


def cases_tables(machine: MachineHistory) -> list[Table]:
    """Return tables with a row for each case of a machine, and notes on changes of its levels.

    A table contains the cases with the same reference stack, or the cases of all frameworks that
    were measured without a reference stack.
    """
    histories_by_title: dict[str, list[CaseHistory]] = {}
    for history in machine.cases:
        title = f"{history.series.text}:" if history.series.stack else ""
        histories_by_title.setdefault(title, []).append(history)
    return [
        replace(
            _cases_table(cases),
            title=TextLine(title) if title else None,
            notes=tuple(
                f"all cases of {series.text} together: {change.sentence}"
                for series in dict.fromkeys(history.series for history in cases)
                for change in machine.shared_changes.get(series, ())
            ),
        )
        for title, cases in histories_by_title.items()
    ]


def _cases_table(cases: Sequence[CaseHistory]) -> Table:
    """Return a table with a row for each case, and below each row the changes of the case."""
    columns = (
        Column(
            head,
            head,
            text=text,
            is_fitted_to_cells=True,
            left_aligned=head == "case",
            gap=2,
            width=len(head),
        )
        for head, text in _CELL_TEXT_BY_HEADING.items()
    )
    rows = []
    counts = Counter((history.series, history.case.name) for history in cases)
    for history in cases:
        # The name includes the protocol if a case has several.
        several = counts[history.series, history.case.name] > 1
        protocol = f" ({history.case.protocol})" if several else ""
        newest_time_s = next(reversed(history.times_s.values()), None)
        ratio = newest_time_s / history.level_s if newest_time_s and history.level_s else None
        cells = {
            "case": f"{history.case.name}{protocol}",
            "sessions": len(history.times_s),
            "level": history.level_s,
            "spread": history.relative_stddev,
            "newest": newest_time_s,
            "ratio": ratio,
            "NOISY": history.outcome_counts.get(Outcome.NOISY, 0),
            "baseline": history.baseline_date or None,
        }
        notes = tuple(TextLine(change.sentence) for change in history.changes)
        rows.append(Row(cells, notes=notes))
    return Table(columns=tuple(columns), rows=tuple(rows), missing_text="-")
