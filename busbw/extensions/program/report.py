"""`busbw program FILE...`: show the collectives of a program, or how two programs differ.

A program is a file of optimized HLO, or a function that a worker compiles. The collectives are
shown as a table, and differences as sentences. This module measures nothing, and reads no HLO.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from busbw.cli import Subparsers, add_command
from busbw.collectives import COLLECTIVES
from busbw.model.words import bytes_text, payload_text, plural
from busbw.report.table import Column, Table, make_rows, render
from busbw.session.command_line import parse_options, read_options
from busbw.session.option import UsageError, number_type, parse_device

from .mode import collectives_of_program
from .options import is_hlo_file, parse_program_option
from .worker_values import CollectiveUse, CollectiveUses, Difference, ProgramCollectives

_COLUMNS = (
    Column("kind", "collective", left_aligned=True, is_fitted_to_cells=True),
    Column("dtype", "dtype", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("payload_bytes", "payload", text=payload_text, is_fitted_to_cells=True),
    Column("where", "over", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("times", "runs", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("traffic_bytes", "traffic", text=bytes_text, is_fitted_to_cells=True),
    Column("started", "start to end", left_aligned=True, is_fitted_to_cells=True, gap=2),
    Column("source", "source", left_aligned=True, gap=2),
)


def add_to(commands: Subparsers) -> None:
    """Add the command `busbw program` and its arguments to `commands`."""
    parser = add_command(
        commands,
        "program",
        run,
        help="Show the collectives of your program, or how those of two programs differ",
        description="Show every collective of a program: payload, axes, how often a step runs it, "
        "and its source line. With two programs, show how the collectives of the second differ "
        "from those of the first; the exit code is then 1 if they differ. Measures nothing.",
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
        type=number_type(int, 2),
        metavar="N",
        help="Compile for N ranks, or the number of ranks of a file that does not have it",
    )
    parser.add_argument(
        "--device",
        type=parse_device,
        metavar="{auto,cpu,gpu,tpu}",
        help="Compile for this kind of device (default: auto)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit code: 1 if two programs differ, and otherwise 0.

    Raises UsageError if more than two programs are named, or if a program cannot be read.
    """
    if len(options.programs) > 2:
        raise UsageError(f"expected one program or two, got {len(options.programs)}")
    programs = [_read_program(source, options) for source in options.programs]
    for source, program in zip(options.programs, programs):
        print("\n".join([f"{source}:", *render("text", collectives_table(program.uses))]))
    if len(programs) == 1:
        return 0
    old, new = (program.uses for program in programs)
    changes = [change.text for change in collective_differences(old, new)]
    print("\n".join(["", *(changes or ["the collectives are the same"])]))
    return int(bool(changes))


def _read_program(source: str, options: argparse.Namespace) -> ProgramCollectives:
    """Return the collectives of a program; `source` names the program as --program does.

    `options` are the arguments of the command, such as `ranks`. Raises UsageError if an option is
    wrong, or if the program cannot be compiled or read.
    """
    # A file of HLO needs no framework: the fake framework is always installed.
    words = [f"--program={source}", f"--frameworks={'fake' if is_hlo_file(source) else 'jax'}"]
    words += [f"--ranks={options.ranks}"] if options.ranks else []
    words += [f"--device={options.device.value}"] if options.device else []
    return collectives_of_program(read_options(parse_options(words), Path.cwd()), source)


def collectives_table(uses: CollectiveUses) -> Table:
    """Return a table with a row for each collective, and a note on the bytes that a step sends."""
    return Table(
        columns=_COLUMNS,
        rows=make_rows(
            {
                "kind": use.kind.replace("_", "-"),
                "dtype": use.dtype,
                "payload_bytes": use.payload_bytes,
                "where": _groups_text(use),
                "times": use.times_text,
                "traffic_bytes": traffic_bytes(use),
                "started": f"asynchronous, {plural(use.hidden_by, 'operation')} between"
                if use.is_asynchronous
                else "synchronous",
                "source": use.source or None,
            }
            for use in uses
        ),
        notes=(_traffic_note(uses),),
        indent=4,
    )


def traffic_bytes(use: CollectiveUse) -> int | None:
    """Return the bytes that each rank sends in a step if the collective runs as a ring.

    The number of bytes is payload x (busbw / algbw) x runs per step. Returns None if busbw does not
    support the collective, if its groups are unknown, or if its number of runs per step depends on
    data.
    """
    collective = COLLECTIVES.get(use.kind)
    if collective is None or use.per_iteration or not use.ranks:
        return None
    return round(use.payload_bytes * collective.bus_factor(use.ranks) * use.times)


def _groups_text(use: CollectiveUse) -> str:
    """Return the axes and the group size of a collective, such as ``data (4)``."""
    if use.axes:
        return f"{use.axes} ({use.ranks})"
    return f"groups of {use.ranks}" if use.ranks else "unknown groups"


def _traffic_note(uses: CollectiveUses) -> str:
    """Return a text with the payload and the sent bytes of all collectives of a step together."""
    traffics = [traffic for traffic in map(traffic_bytes, uses) if traffic is not None]
    counted = [use for use in uses if not use.per_iteration]
    payloads = sum(use.payload_bytes * use.times for use in counted if use.ranks != 1)
    most = "at most " if any(use.at_most and use.ranks != 1 for use in counted) else ""
    return (
        f"a step: {most}{bytes_text(payloads)} of payloads, {bytes_text(sum(traffics))} over each "
        "rank's link in rings"
        + ("; without the collectives per iteration" if len(counted) < len(uses) else "")
    )


# The most source lines that a difference names.
_MAX_NAMED_LINES = 2


def collective_differences(
    old_program: CollectiveUses, new_program: CollectiveUses
) -> tuple[Difference, ...]:
    """Return the differences between the collectives of two programs, the largest payload first.

    Collectives with the same kind, dtype, payload and groups are compared with each other. If only
    the dtype or the payload of a collective changed, the change is a single difference. Another
    order or source line is no difference. Source lines only show where a collective was added,
    changed or removed.
    """
    old, new = _uses_by_name(old_program), _uses_by_name(new_program)
    # The old names of removed collectives, and the new names of added collectives, by what is the
    # same if only the dtype or the payload of a collective changed.
    names: dict[tuple[str, ...], tuple[list[str], list[str]]] = {}
    for side, (program, other_program) in enumerate(((old, new), (new, old))):
        for name, uses in program.items():
            if name not in other_program:
                key = uses[0].kind_text, uses[0].groups_text, _run_counts_text(uses)
                names.setdefault(key, ([], []))[side].append(name)
    # Several collectives with the same key are matched in the order of payloads, the largest first,
    # unless another number of collectives was added than removed.
    matched = (zip(*pair) for pair in names.values() if len(pair[0]) == len(pair[1]))
    new_names: dict[str, str] = dict(itertools.chain(*matched))
    differences: list[Difference] = []
    largest_first = sorted((*old_program, *new_program), key=lambda use: -use.payload_bytes)
    for name in dict.fromkeys(use.name for use in largest_first):
        if name not in new_names.values():
            new_uses = new.get(new_names.get(name, name), [])
            differences += _differences_of_collective(name, old.get(name, []), new_uses)
    return tuple(differences)


def _uses_by_name(program: CollectiveUses) -> dict[str, list[CollectiveUse]]:
    """Return the collectives of a program by their names.

    A name is for example ``all-gather of float32 4M along model``.
    """
    uses_by_name: dict[str, list[CollectiveUse]] = {}
    for use in program:
        uses_by_name.setdefault(use.name, []).append(use)
    return uses_by_name


def _differences_of_collective(
    name: str, old_uses: Sequence[CollectiveUse], new_uses: Sequence[CollectiveUse]
) -> Iterator[Difference]:
    """Yield the differences of a collective between two programs.

    The compared properties are the number of runs, the dtype and payload, the groups, whether the
    collective is asynchronous, and the algorithm. If only a single program has the collective,
    the number of runs is the only difference.

    Args:
        name: The name of the collective, such as ``all-gather of float32 4M along model``.
        old_uses: The collectives with this name in the old program; empty if the program has none.
        new_uses: The matching collectives in the new program; empty if the program has none.

    """
    lines = _lines_text(old_uses, new_uses)
    for describe in _COMPARED_TEXTS:
        old_text, new_text = describe(old_uses), describe(new_uses)
        if old_text != new_text:
            # The unit of both numbers is written once, as in "12 -> 24 per step".
            unit = new_text.partition(" ")[2]
            old_text = old_text.removesuffix(f" {unit}") if new_text and old_text else old_text
            yield Difference(
                name=name, before=old_text, now=f"{new_text or 'none'}{lines}", fails=True
            )
        if not old_uses or not new_uses:
            return


def _run_counts_text(uses: Sequence[CollectiveUse]) -> str:
    """Return how often equal collectives run, such as ``4 per step, at most 2 per step``."""
    sums: dict[tuple[bool, bool], CollectiveUse] = {}
    for use in uses:
        key = use.at_most, use.per_iteration
        sums[key] = replace(use, times=use.times + (sums[key].times if key in sums else 0))
    return ", ".join(sorted(use.times_text for use in sums.values()))


def _asynchrony_text(uses: Sequence[CollectiveUse]) -> str:
    """Return how many runs are asynchronous, such as ``2 asynchronous, 1 synchronous``.

    If all runs are alike, the text is only the word ``asynchronous`` or ``synchronous``.
    """
    counts = Counter[str]()
    for use in uses:
        counts["asynchronous" if use.is_asynchronous else "synchronous"] += use.times
    texts = [f"{count} {word}" for word, count in sorted(counts.items())]
    return ", ".join(texts) if len(texts) > 1 else next(iter(counts))


def _algorithm_text(uses: Sequence[CollectiveUse]) -> str:
    """Return the published algorithms of collectives; empty if no algorithm is published."""
    texts = {" ".join(value for _, value in sorted(use.algorithm.items())) for use in uses}
    return "; ".join(sorted(filter(None, texts)))


# The number of runs is first: a collective of a single program has no other difference.
_COMPARED_TEXTS: Sequence[Callable[[Sequence[CollectiveUse]], str]] = (
    _run_counts_text,
    lambda uses: uses[0].data_text,
    lambda uses: "; ".join(sorted({use.group_sizes_text for use in uses})),
    _asynchrony_text,
    _algorithm_text,
)


def _lines_text(old_uses: Sequence[CollectiveUse], new_uses: Sequence[CollectiveUse]) -> str:
    """Return the source lines at which the number of runs changed, such as `` (train.py:88)``.

    If the number of runs did not change at any line, return the lines of `new_uses`. The text names
    at most _MAX_NAMED_LINES lines, and is empty if no line is known.
    """
    old_counts, new_counts = Counter[str](), Counter[str]()
    for counts, uses in ((old_counts, old_uses), (new_counts, new_uses)):
        for use in uses:
            counts[use.source] += use.times
    changed_lines = [
        line for line in {**new_counts, **old_counts} if old_counts[line] != new_counts[line]
    ]
    lines = list(filter(None, changed_lines or new_counts))
    more = f" and {len(lines) - _MAX_NAMED_LINES} more" if len(lines) > _MAX_NAMED_LINES else ""
    return f" ({', '.join(lines[:_MAX_NAMED_LINES])}{more})" if lines else ""
