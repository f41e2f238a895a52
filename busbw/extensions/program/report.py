"""`busbw program FILE...`: show the collectives of a program, or how two programs differ.

A program is a file of optimized HLO, or a function that a worker compiles. The collectives are
shown as a table, and differences as sentences. This module measures nothing, and reads no HLO.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from busbw.cli import Subparsers, add_command
from busbw.collectives import COLLECTIVES
from busbw.model.words import bytes_text, payload_text, plural
from busbw.report.table import Column, Table, attributes_by_name, make_rows, render
from busbw.session.command_line import make_options, parse_options
from busbw.session.option import UsageError

from .mode import collectives_of_program
from .options import is_hlo_file, parse_program_option
from .worker_values import (
    CollectiveUse,
    CollectiveUses,
    ProgramCollectives,
    ProgramDifference,
    merge_equal_uses,
)

_COLUMNS = (
    Column("kind_text", "collective", left_aligned=True, is_fitted_to_cells=True),
    Column("dtype", "dtype", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("payload_bytes", "payload", text=payload_text, is_fitted_to_cells=True),
    Column("groups_text", "groups", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("ranks", "ranks", is_fitted_to_cells=True),
    Column("times_text", "runs", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("traffic_bytes", "traffic", text=bytes_text, is_fitted_to_cells=True),
    Column("started", "start to end", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("source", "source", left_aligned=True, gap=2),
)


def add_subcommand(commands: Subparsers) -> None:
    """Add the command `busbw program` and its arguments to `commands`."""
    parser = add_command(
        commands,
        "program",
        run,
        help="Show the collectives of your program, or how those of two programs differ",
        description="Show every collective of a program: payload, axes, how often a step runs it, "
        "and its source line. With two programs, show how the collectives of the second differ "
        "from those of the first; the exit code is then 1 if they differ. Arguments whose bytes "
        "differ are named, too. Measures nothing.",
        example="busbw program monday.hlo.txt tuesday.hlo.txt",
    )
    parser.add_argument(
        "programs",
        nargs="+",
        type=parse_program_option,
        metavar="PROGRAM",
        help="A file of optimized HLO, as --xla_dump_to writes it, or FILE.py:FUNCTION or "
        "MODULE:FUNCTION, which busbw compiles with JAX for the attached devices",
    )
    parser.add_argument(
        "--ranks",
        metavar="N",
        help="Compile for N ranks, or the number of ranks of a file that does not have it",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit code: 1 if two programs differ, and otherwise 0.

    Raises UsageError if more than two programs are named, or if a program cannot be read.
    """
    if len(options.programs) > 2:
        raise UsageError(f"expected one program or two, got {len(options.programs)}")
    words = [f"--ranks={options.ranks}"] if options.ranks else []
    programs: list[ProgramCollectives] = []
    for source in options.programs:
        # A file of HLO needs no framework: the fake framework is always installed.
        framework = "fake" if is_hlo_file(source) else "jax"
        values = parse_options([*words, f"--frameworks={framework}"])
        session_options = make_options(values, Path.cwd())
        programs.append(collectives_of_program(session_options, source))
        print("\n".join([f"{source}:", *render("text", collectives_table(programs[-1].uses))]))
    if len(programs) == 1:
        return 0
    old, new = programs
    changes = [change.text for change in collective_differences(old.uses, new.uses)]
    arguments = [change.text for change in argument_differences(old.arguments, new.arguments)]
    print("\n".join(["", *(changes or ["the collectives are the same"]), *arguments]))
    return int(bool(changes))


def collectives_table(uses: CollectiveUses) -> Table:
    """Return a table with a row for each collective, and a note on the bytes of a step.

    The note has the sum of the payloads, and the number of bytes that each rank sends. The sums
    leave out collectives whose runs per step are unknown, and groups of a single rank. The sent
    bytes also leave out collectives for which `sent_bytes_per_step` returns None.
    """
    counted = [use for use in uses if not use.per_iteration and use.ranks != 1]
    payload_bytes = sum(use.payload_bytes * use.times for use in counted)
    sent_bytes = sum(filter(None, map(sent_bytes_per_step, uses)))
    most = "at most " if any(use.at_most for use in counted) else ""
    gap = "; without the collectives per iteration" if any(u.per_iteration for u in uses) else ""
    return Table(
        columns=_COLUMNS,
        rows=make_rows(
            {
                **attributes_by_name(use, "kind_text", "dtype", "payload_bytes"),
                **attributes_by_name(use, "groups_text", "times_text"),
                "ranks": use.ranks or None,
                "traffic_bytes": sent_bytes_per_step(use),
                "started": f"asynchronous, {plural(use.hidden_by, 'operation')} between"
                if use.is_asynchronous
                else "synchronous",
                "source": use.source or None,
            }
            for use in uses
        ),
        notes=(
            f"a step: {most}{bytes_text(payload_bytes)} of payloads, {bytes_text(sent_bytes)} over "
            f"each rank's link in rings{gap}",
        ),
        indent=4,
    )


def sent_bytes_per_step(use: CollectiveUse) -> int | None:
    """Return the bytes that each rank sends in a step if the collective runs as a ring.

    The number is payload x (busbw / algbw) x runs per step. Returns None if busbw does not support
    the collective, if the groups of the collective are unknown, or if the number of runs per step
    depends on data.
    """
    collective = COLLECTIVES.get(use.kind)
    if collective is None or use.per_iteration or not use.ranks:
        return None
    return round(use.payload_bytes * collective.bus_factor(use.ranks) * use.times)


def collective_differences(
    old_program: CollectiveUses, new_program: CollectiveUses
) -> Iterator[ProgramDifference]:
    """Yield the differences between the collectives of two programs.

    Collectives with the same kind, dtype, payload and groups are compared with each other. A
    removed collective and an added collective that differ only in dtype and payload count as a
    single, changed collective. The order of the collectives and their source lines are not
    compared. But a difference shows the source lines of its collective.

    The differences of changed and removed collectives come before those of added collectives. Both
    parts are sorted by payload, the largest first.
    """
    old = _uses_by_name(old_program)
    new = _uses_by_name(new_program)
    added = [uses for name, uses in new.items() if name not in old]
    for name, uses in old.items():
        # An added collective that differs only in dtype or payload is the removed collective.
        similar = (
            other for other in added if _kind_and_run_texts(other) == _kind_and_run_texts(uses)
        )
        match = new.get(name) or next(similar, ())
        added = [other for other in added if other is not match]
        yield from _differences_of_collective(uses, match)
    for uses in added:
        yield from _differences_of_collective((), uses)


def _kind_and_run_texts(uses: CollectiveUses) -> tuple[str, ...]:
    """Return the kind, the groups and the number of runs of equal collectives, in words."""
    return uses[0].kind_text, uses[0].groups_text, _run_counts_text(uses)


def _uses_by_name(program: CollectiveUses) -> dict[str, CollectiveUses]:
    """Return the collectives of a program by `CollectiveUse.name`, the largest payload first.

    Several collectives may have the same name, such as ``all-gather of float32 4M along model``.
    """
    ordered = sorted(program, key=lambda use: (-use.payload_bytes, use.name))
    return {name: (*uses,) for name, uses in itertools.groupby(ordered, lambda use: use.name)}


def _differences_of_collective(
    old_uses: CollectiveUses, new_uses: CollectiveUses
) -> list[ProgramDifference]:
    """Return the differences of a collective between an old and a new program.

    If only one of the programs has the collective, the number of runs is the only difference.

    Args:
        old_uses: The collective in the old program; empty if the old program does not have it.
            Several uses have the same name, and differ for example in their source lines.
        new_uses: The same for the new program.

    """
    name = (old_uses or new_uses)[0].name
    lines = _source_lines_text(old_uses, new_uses)
    return [
        ProgramDifference(
            name=name, before=old_text, now=f"{new_text or 'none'}{lines}", fails=True
        )
        for old_text, new_text in zip(_compared_texts(old_uses), _compared_texts(new_uses))
        if old_text != new_text
    ]


def _compared_texts(uses: CollectiveUses) -> list[str]:
    """Return the texts that are compared between two programs, for collectives of the same name.

    The texts are the number of runs, the dtype and payload, the groups, how many runs are
    asynchronous (such as ``2 asynchronous, 1 synchronous``), and the published algorithms. If
    `uses` is empty, the result is a single empty text.
    """
    if not uses:
        return [""]
    counts = Counter[str]()
    for use in uses:
        counts["asynchronous" if use.is_asynchronous else "synchronous"] += use.times
    count_texts = [f"{count} {word}" for word, count in sorted(counts.items())]
    groups = {f"{plural(use.groups, 'group')} of {use.ranks}" for use in uses}
    algorithms = {" ".join(value for _, value in sorted(use.algorithm.items())) for use in uses}
    return [
        _run_counts_text(uses),
        uses[0].dtype_and_payload_text,
        "; ".join(sorted(groups)),
        ", ".join(count_texts if len(counts) > 1 else counts),
        "; ".join(sorted(filter(None, algorithms))),
    ]


def _run_counts_text(uses: CollectiveUses) -> str:
    """Return how often equal collectives run, such as ``4 per step, at most 2 per step``."""
    merged = merge_equal_uses(
        replace(uses[0], times=use.times, at_most=use.at_most, per_iteration=use.per_iteration)
        for use in uses
    )
    return ", ".join(sorted(use.times_text for use in merged))


def _source_lines_text(old_uses: CollectiveUses, new_uses: CollectiveUses) -> str:
    """Return the source lines at which the number of runs changed, such as `` (train.py:88)``.

    If the number of runs is the same at every line, return all source lines of `new_uses`. The text
    is empty if no source line is known.
    """
    old, new = (
        {(line, use.times) for use in uses for line in use.source.split(", ")}
        for uses in (old_uses, new_uses)
    )
    lines = sorted({line for line, _ in old ^ new or new} - {""})
    return f" ({', '.join(lines)})" if lines else ""


def argument_differences(
    old_program: Mapping[str, int], new_program: Mapping[str, int]
) -> Iterator[ProgramDifference]:
    """Yield a ProgramDifference for each argument of a program whose size in bytes changed.

    An argument of the old program is compared with the argument of the same name in the new
    program. If neither program has the other's name, the arguments at the same place are compared,
    because an argument may have been renamed. No difference fails a case.

    Args:
        old_program: Maps the names of the old program's arguments to their bytes.
        new_program: The same for the new program. If one of the mappings is empty, the arguments of
            the program are unknown, and nothing is yielded.

    """
    old_names = {
        new_name: old_name
        for old_name, new_name in zip(old_program, new_program)
        if old_name not in new_program and new_name not in old_program
    }
    new = {old_names.get(name, name): size for name, size in new_program.items()}
    for name in {**old_program, **new} if old_program and new else ():
        sizes = (old_program.get(name, 0), new.get(name, 0))
        if sizes[0] == sizes[1]:
            continue
        texts = [bytes_text(size) if size else "" for size in sizes]
        if texts[0] == texts[1]:
            texts = [f"{size} bytes" for size in sizes]
        number = list(new if name in new else old_program).index(name)
        label = f"argument {number}" + (f", `{name}`" if name != str(number) else "")
        yield ProgramDifference(name=label, before=texts[0], now=texts[1], fails=False)
