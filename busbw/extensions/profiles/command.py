"""`busbw trace DIR...`: print the bandwidth table of profiler recordings.

The table has a row for each payload and a column for each slice. Recordings are found by their
names. TensorBoard's layout is `plugins/profile/<time>/<host>.<format>`, a folder for each session
with the files of its hosts.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from busbw import metrics
from busbw.cli import Commands, add_command
from busbw.collectives import COLLECTIVES
from busbw.model.field_types import SHORTEST_S
from busbw.model.words import MIB, payload_text
from busbw.report.renderers import render
from busbw.report.table import Column, Table, TextLine, rows_of
from busbw.session.arguments import argument_type, parse_path, parse_payload, word_list_type
from busbw.storage import TooLargeError

from .recordings import UNKNOWN, XPLANE, Collective, collectives, read

# The best format comes last: profilers leave later events out of the others.
_FORMATS = ("trace.json", "trace.json.gz", XPLANE)
_PLANE = re.compile(r"^/device:(?:TPU|GPU):(\d{1,9})$")
# Names of folders of the project "TPU_All_reduce" of 2019, which measured TPU v2: scale16 is 16M,
# scale-16 is 1M / 16.
_TPU_V2 = re.compile(
    r"tpu(?:v2n)?(?P<slice>\d+)a?_bs\d+_(?:scale(?P<whole>\d+)|-?scale-?(?P<part>[1-9]\d*))"
)

# A figure in the form that it has in JSON.
Cell = dict[str, Any]


def _pattern(group: str, text: str) -> re.Pattern[str]:
    try:
        # Names of folders are searched as lines.
        if group in (rule := re.compile(text, re.MULTILINE)).groupindex:
            return rule
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    raise ValueError(f"{text!r} has no group (?P<{group}>...)")


def add_to(commands: Commands) -> None:
    """Add the command and its arguments."""
    parser = add_command(
        commands,
        "trace",
        run,
        help="Print a bandwidth table from profiler recordings of any program",
        description="Print the bandwidth of the collectives in profiler recordings (*.xplane.pb, "
        "*.trace.json.gz), with a row for each payload and a column for each slice. Each figure is "
        "the median over iterations of the slowest rank on any host; the first iteration of each "
        "call is left out.",
        example="busbw trace recordings --collective=all_reduce,all_gather",
    )
    add = parser.add_argument
    add(
        "paths",
        nargs="+",
        type=parse_path,
        metavar="DIR",
        help="A folder with recordings, or a recording",
    )
    add(
        "--size-limit",
        type=parse_payload,
        default="256M",
        metavar="SIZE",
        help="Read at most this much of an unpacked recording; reading one may take thirty times "
        "as much memory (default: 256M)",
    )
    add(
        "--partial",
        action="store_true",
        help="Show figures of the other devices, too, where a recording lacks collectives, devices "
        "or hosts",
    )
    add(
        "--slice-from",
        type=argument_type(functools.partial(_pattern, "slice")),
        metavar="REGEX",
        help="Take the name of the column from the folder's name: a regular expression with a "
        "group (?P<slice>...). Default: the number of ranks",
    )
    add(
        "--collective",
        type=word_list_type(tuple(COLLECTIVES)),
        default="all_reduce",
        metavar="KINDS",
        help=f"Show these collectives, as a comma list of {', '.join(COLLECTIVES)} (default: "
        "all_reduce)",
    )
    add(
        "--rate",
        default="algbw",
        choices=("algbw", "busbw"),
        help="Show this rate (default: algbw)",
    )
    add("--json", action="store_true", help="Print everything as JSON instead of the table")
    add(
        "--figure",
        type=parse_path,
        metavar="FILE",
        help="Draw the table as a chart into FILE, SVG or PNG by its suffix",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--payload",
        type=parse_payload,
        metavar="SIZE",
        help="Use this payload, such as 16M, if the recording does not contain it",
    )
    group.add_argument(
        "--payload-from",
        type=argument_type(functools.partial(_pattern, "payload")),
        metavar="REGEX",
        help="Read the payload from the folder's name: a regular expression with a group "
        "(?P<payload>...)",
    )


def run(options: argparse.Namespace) -> int:
    sessions = _sessions(options.paths)
    problems = [] if sessions else [f"no recording; expected *{', *'.join(reversed(_FORMATS))}"]
    figures = cells(sessions, options, problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    document = {"schema_version": 3, "cells": figures, "problems": problems}
    table = "\n".join(render("markdown", *tables(figures, options.rate)))
    print(json.dumps(document, indent=1) if options.json else table)
    if options.figure is not None and figures and _write_figure(figures, options):
        return 1
    return int(bool(problems) or not figures)


def _sessions(paths: Iterable[Path]) -> Mapping[Path, Mapping[str, Path]]:
    """Return the file of each host in its best format, by folder."""
    sessions: dict[Path, dict[str, Path]] = defaultdict(dict)
    folders = [Path(os.path.realpath(path)) for path in paths]
    for form, path in itertools.product(_FORMATS, folders):
        for file in (path, *sorted(path.rglob(f"*{form}"))):
            if file.name.endswith(form):
                sessions[file.parent][file.name.removesuffix(form).rstrip("._")] = file
    for hosts in sessions.values():
        # JAX writes the same events once more for Perfetto if it is told to.
        if len(hosts) > 1:
            hosts.pop("perfetto", None)
    return sessions


def cells(
    sessions: Mapping[Path, Mapping[str, Path]], options: argparse.Namespace, problems: list[str]
) -> list[Cell]:
    """Return the figures of all sessions; those of the same payload and column are joined.

    Args:
        sessions: the file of each host, by folder.
        options: those of `busbw trace`.
        problems: is extended by a sentence for everything that gives no figure.

    """
    joined: dict[tuple[str, int, str, int], list[dict[str, float]]] = defaultdict(list)
    for folder, hosts in sessions.items():
        devices, by_sort = set[str](), defaultdict(list)
        for host, path in hosts.items():
            try:
                events = read(path, options.size_limit)
                for collective in collectives(events, host):
                    if collective.kind in (*options.collective, UNKNOWN):
                        by_sort[collective[:3]].append(collective)
                planes = {event.plane for event in events}
                devices |= {f"{host}/{name}" for plane in planes for name in _PLANE.findall(plane)}
            except ValueError as error:
                hint = " (--size-limit)" if isinstance(error, TooLargeError) else ""
                problems.append(f"{path}: {error}{hint}")
                # The host counts as a device, which lacks its collectives.
                devices.add(host)
        if not by_sort:
            problems.append(f"{folder}: no {' or '.join(options.collective)} with its time in it")
        for of_sort in itertools.chain.from_iterable(map(_split, by_sort.values())):
            try:
                iterations = _iterations(of_sort, devices, is_partial=options.partial)
                joined[_key(folder, of_sort[0], options, len(iterations[0]))] += iterations
            except ValueError as error:
                problems.append(f"{folder}: {of_sort[0].kind}: {error}")
    return [_cell(*key, iterations) for key, iterations in sorted(joined.items())]


def _split(of_sort: Sequence[Collective]) -> Collection[Sequence[Collective]]:
    """Return the collectives of each instruction, or all together if an instruction is in a loop.

    A step runs an instruction once, and its collectives may have different payloads. A loop runs an
    instruction several times in a call, and its first iteration is a warm-up.
    """
    runs = Counter(
        (collective.device, collective.call, collective.instruction) for collective in of_sort
    )
    by_instruction: dict[str, list[Collective]] = defaultdict(list)
    for collective in of_sort:
        by_instruction[collective.instruction].append(collective)
    if max(runs.values()) > 1 or len(by_instruction) == 1:
        return [of_sort]
    if of_sort[0].payload_bytes is None:
        names = ", ".join(by_instruction)
        print(f"warning: one payload is taken for all of {names}", file=sys.stderr)
    return by_instruction.values()


def _iterations(
    of_sort: Sequence[Collective], devices: set[str], *, is_partial: bool
) -> list[dict[str, float]]:
    """Return the seconds of each collective on each device, without warm-ups.

    The k-th call on one device is the k-th on all, and so is a call's i-th collective. The first of
    each call is its warm-up; where each call has a single one, the first call is. With `is_partial`
    devices that lack collectives are left out.

    Raises ValueError where the recording lacks collectives or devices, or has only warm-ups.
    """
    calls: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for collective in of_sort:
        calls[collective.device][collective.call].append(collective.duration_s)
    groups = of_sort[0].groups
    # Idle devices lack nothing beside as many as the groups name.
    is_whole = groups and len(calls) >= groups.ranks
    expected = sorted(calls if is_whole else devices.union(calls))
    counts = {device: list(map(len, calls[device].values())) for device in expected}
    most = max(counts.values(), key=sum)
    whole = [device for device, count in counts.items() if count == most]
    lacking = [
        f"{name} has {sum(counts[name])} of {sum(most)}" for name in counts if name not in whole
    ]
    if groups and len(counts) < groups.ranks:
        lacking.append(f"{groups.ranks} devices take part, and {len(counts)} are recorded")
    if lacking and not is_partial:
        raise ValueError(f"{', '.join(lacking)}; --partial reads the rest")
    if lacking:
        print(f"warning: {of_sort[0].kind}: {', '.join(lacking)}", file=sys.stderr)
    warm_ups = {0} if max(most) == 1 else {0, *itertools.accumulate(most)}
    times_s = zip(*(itertools.chain.from_iterable(calls[device].values()) for device in whole))
    iterations = [
        dict(zip(whole, times))
        for number, times in enumerate(times_s)
        if number not in warm_ups and max(times) >= SHORTEST_S
    ]
    if not iterations:
        raise ValueError("there is no time but that of the warm-up")
    return iterations


def _key(
    folder: Path, collective: Collective, options: argparse.Namespace, devices: int
) -> tuple[str, int, str, int]:
    """Return collective, payload, column and ranks of a figure.

    What the recording does not say, options or names of folders do, the innermost first. In
    TensorBoard's layout, plugins/profile/<time>, the three innermost names say nothing.
    """
    inner = folder.parents[2] if folder.parts[-3:-1] == ("plugins", "profile") else folder
    names = "\n".join(reversed(inner.parts))
    column = (options.slice_from or _TPU_V2).search(names)
    size = (options.payload_from or _TPU_V2).search(names)
    payload_bytes = collective.payload_bytes or options.payload
    if size and not payload_bytes:
        payload_bytes = (
            metrics.parse_payload(size["payload"] or "")
            if options.payload_from
            else MIB * int(size["whole"] or 0) or MIB // int(size["part"])
        )
    if collective.kind == UNKNOWN:
        raise ValueError("the recording does not say which collective its kernels run")
    if not payload_bytes:
        raise ValueError("the recording does not say the payload; give --payload or --payload-from")
    groups = collective.groups
    ranks = groups.size if groups else devices
    name = f"{'' if options.slice_from else 'v2-'}{column['slice'] or ''}" if column else ""
    if groups and groups.groups > 1:
        name = f"{name}, groups of {ranks}" if name else f"{ranks} of {groups.ranks} ranks"
    return collective.kind, payload_bytes, name or f"{ranks} ranks", ranks


def _cell(
    kind: str, payload_bytes: int, column: str, ranks: int, iterations: Sequence[dict[str, float]]
) -> Cell:
    median_s = statistics.median(max(times.values()) for times in iterations)
    algbw = metrics.algbw_gb_per_s(payload_bytes, median_s)
    return {
        "collective": kind,
        "payload": payload_text(payload_bytes),
        "payload_bytes": payload_bytes,
        "slice": column,
        "ranks": ranks,
        "algbw_gb_per_s": algbw,
        "busbw_gb_per_s": algbw * metrics.bus_factor_of(kind, ranks),
        "slowest_rank": {"median_s": median_s},
        "iterations": [{"durations_s": dict(iteration)} for iteration in iterations],
    }


def tables(figures: Iterable[Cell], rate: str) -> Iterator[Table]:
    """Yield a table for each kind of collective, by which the figures are sorted."""
    for kind, cells_of_kind in itertools.groupby(figures, lambda cell: str(cell["collective"])):
        rates: dict[str, dict[str, float]] = defaultdict(dict)
        counts = Counter[str]()
        for cell in cells_of_kind:
            rates[cell["payload"]][cell["slice"]] = cell[f"{rate}_gb_per_s"]
            counts[cell["slice"]] += len(cell["iterations"])
        names = sorted(counts, key=lambda name: (len(name), name))
        columns = [Column(name, name, unit="GB/s", text="{:.4g}".format) for name in names]
        factor = f" x {COLLECTIVES[kind].bus_factor_text}" if rate == "busbw" else ""
        yield Table(
            title=TextLine(
                f"{kind}, {rate} = payload / time{factor}, GB = 10^9 bytes\n"
                "The time is the median over iterations of the slowest rank, without warm-ups."
            ),
            columns=(Column("payload", "payload"), *columns),
            rows=rows_of(
                {"payload": payload, **dict.fromkeys(names), **rates[payload]} for payload in rates
            ),
            notes=(*(f"{name}: {counts[name]} iterations" for name in names), ""),
        )


def _write_figure(figures: Sequence[Cell], options: argparse.Namespace) -> int:
    """Draw a curve for each collective and column; return the exit code. Raises UsageError."""
    # Only a figure needs the extension that draws.
    from busbw.extensions.page.figure_command import write_figure
    from busbw.extensions.page.figures import Curves

    rows = [
        {
            "series": f"{cell['collective']}, {cell['slice']}",
            "x": cell["payload_bytes"],
            "y": cell[f"{options.rate}_gb_per_s"],
        }
        for cell in figures
    ]
    figure = Curves(
        title="Collectives in recordings",
        rows=rows,
        headings={"series": "collective", "x": "payload", "y": f"{options.rate} (GB/s)"},
        is_log=True,
    )
    return write_figure(figure, "--figure", options.figure, [])
