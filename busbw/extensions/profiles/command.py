"""`busbw trace DIR...`: print the bandwidth table of profiler recordings.

The table has a row for each payload and a column for each slice. Recordings are found by the
suffixes of their names. A folder holds one recording, with a file for each host: TensorBoard's
layout is `plugins/profile/<time>/<host>.<format>`.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

from .recordings import UNKNOWN, XPLANE, RecordedCollective, find_collectives, read_events

# The best format is last, because profilers leave later events out of files in the other formats.
_FORMATS = ("trace.json", "trace.json.gz", XPLANE)
_PLANE = re.compile(r"^/device:(?:TPU|GPU):(\d{1,9})$")
# The names of folders in the project "TPU_All_reduce" (2019), which measured TPU v2. In these names
# scale16 is 16M, and scale-16 is 1M / 16.
_TPU_V2 = re.compile(
    r"tpu(?:v2n)?(?P<slice>\d+)a?_bs\d+_(?:scale(?P<whole>\d+)|-?scale-?(?P<part>[1-9]\d*))"
)


def _pattern_with_group(group: str, text: str) -> re.Pattern[str]:
    """Compile a regular expression. Raises ValueError if it is invalid or lacks a named `group`."""
    try:
        # MULTILINE, because each folder of a path is a line of the text that is searched.
        if group in (rule := re.compile(text, re.MULTILINE)).groupindex:
            return rule
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    raise ValueError(f"{text!r} has no group (?P<{group}>...)")


def add_to(commands: Commands) -> None:
    """Add the subcommand and its options to `commands`."""
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
        type=argument_type(functools.partial(_pattern_with_group, "slice")),
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
        "--json",
        action="store_true",
        help="Print JSON instead of the table, with the time of each iteration and the busbw",
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
        type=argument_type(functools.partial(_pattern_with_group, "payload")),
        metavar="REGEX",
        help="Read the payload from the folder's name: a regular expression with a group "
        "(?P<payload>...)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit code."""
    recordings = _recordings_by_folder(options.paths)
    problems = [] if recordings else [f"no recording; expected *{', *'.join(reversed(_FORMATS))}"]
    cells = bandwidth_cells(recordings, options, problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    document = {"schema_version": 3, "cells": cells, "problems": problems}
    table = "\n".join(render("markdown", *bandwidth_tables(cells)))
    print(json.dumps(document, indent=1) if options.json else table)
    return int(bool(problems))


def _recordings_by_folder(paths: Iterable[Path]) -> Mapping[Path, Mapping[str, Path]]:
    """Return the recordings by folder, each as the file of each host in the host's best format."""
    recordings: dict[Path, dict[str, Path]] = defaultdict(dict)
    folders = [Path(os.path.realpath(path)) for path in paths]
    for form, path in itertools.product(_FORMATS, folders):
        for file in (path, *sorted(path.rglob(f"*{form}"))):
            if file.name.endswith(form):
                recordings[file.parent][file.name.removesuffix(form).rstrip("._")] = file
    for hosts in recordings.values():
        # JAX can write the events of a host a second time, into a file for the viewer Perfetto.
        if len(hosts) > 1:
            hosts.pop("perfetto", None)
    return recordings


def bandwidth_cells(
    recordings: Mapping[Path, Mapping[str, Path]], options: argparse.Namespace, problems: list[str]
) -> list[dict[str, Any]]:
    """Return the cells of the table; recordings with the same payload and column share a cell.

    Args:
        recordings: The file of each host by folder, as `_recordings_by_folder` returns them.
        options: The options of `busbw trace`.
        problems: A list to which a sentence is added for each file or collective without a cell.

    """
    joined: dict[tuple[str, int, str, int], list[dict[str, float]]] = defaultdict(list)
    for folder, hosts in recordings.items():
        devices, by_instruction = set[str](), defaultdict(list)
        for host, path in hosts.items():
            try:
                events = read_events(path, options.size_limit)
                for collective in find_collectives(events, host):
                    if collective.kind in (*options.collective, UNKNOWN):
                        by_instruction[collective[:4]].append(collective)
                devices |= {
                    f"{host}/{number}" for event in events for number in _PLANE.findall(event.plane)
                }
            except ValueError as error:
                hint = " (--size-limit)" if isinstance(error, TooLargeError) else ""
                problems.append(f"{path}: {error}{hint}")
                # An unreadable host counts as a device without collectives, so that the recording
                # is incomplete.
                devices.add(host)
        if not by_instruction:
            problems.append(f"{folder}: no {' or '.join(options.collective)} with its time in it")
        unsized = [name for _, payload_bytes, _, name in by_instruction if payload_bytes is None]
        if len(unsized) > 1:
            print(f"warning: one payload is taken for all of {', '.join(unsized)}", file=sys.stderr)
        for runs in by_instruction.values():
            try:
                iterations = _iteration_times(runs, devices, is_partial=options.partial)
                joined[_cell_key(folder, runs[0], options, len(iterations[0]))] += iterations
            except ValueError as error:
                problems.append(f"{folder}: {runs[0].kind}: {error}")
    return [_bandwidth_cell(*key, iterations) for key, iterations in sorted(joined.items())]


def _iteration_times(
    runs: Sequence[RecordedCollective], devices: set[str], *, is_partial: bool
) -> list[dict[str, float]]:
    """Return the seconds on each device of each iteration, without warm-ups.

    The k-th call on a device belongs to the k-th call on all other devices, and so does the i-th
    run in a call. The first run of each call is a warm-up. If each call has a single run, only the
    first call is a warm-up.

    Args:
        runs: All runs of an instruction, on all devices.
        devices: The names of all devices in the recording.
        is_partial: Leave out devices that lack runs; otherwise ValueError is raised.

    Raises:
        ValueError: The recording lacks runs or devices, or has only warm-ups.

    """
    calls: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for collective in runs:
        calls[collective.device][collective.call].append(collective.duration_s)
    groups = runs[0].groups
    # If as many devices as the groups name took part, the other devices were idle and lack nothing.
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
        print(f"warning: {runs[0].kind}: {', '.join(lacking)}", file=sys.stderr)
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


def _cell_key(
    folder: Path, collective: RecordedCollective, options: argparse.Namespace, devices: int
) -> tuple[str, int, str, int]:
    """Return the collective's kind, the payload, the name of the column, and the ranks of a cell.

    If the recording does not contain the payload, options or names of folders give it. Names of
    inner folders take precedence.

    Args:
        folder: The folder of the recording.
        collective: A recorded collective of the cell.
        options: The options of `busbw trace`.
        devices: The number of devices that took part.

    Raises:
        ValueError: The kind of collective or the payload is not known.

    """
    names = "\n".join(reversed(folder.parts))
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


def _bandwidth_cell(
    kind: str, payload_bytes: int, column: str, ranks: int, iterations: Sequence[dict[str, float]]
) -> dict[str, Any]:
    """Return a cell; each of `iterations` has the seconds of an iteration by device."""
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


def bandwidth_tables(cells: Iterable[dict[str, Any]]) -> Iterator[Table]:
    """Yield a table of algbw for each kind of collective, whose cells must follow each other."""
    for kind, cells_of_kind in itertools.groupby(cells, lambda cell: str(cell["collective"])):
        rates: dict[str, dict[str, float]] = defaultdict(dict)
        counts = Counter[str]()
        for cell in cells_of_kind:
            rates[cell["payload"]][cell["slice"]] = cell["algbw_gb_per_s"]
            counts[cell["slice"]] += len(cell["iterations"])
        names = sorted(counts, key=lambda name: (len(name), name))
        columns = [Column(name, name, unit="GB/s", text="{:.4g}".format) for name in names]
        yield Table(
            title=TextLine(
                f"{kind}, algbw = payload / time, GB = 10^9 bytes\n"
                "The time is the median over iterations of the slowest rank, without warm-ups."
            ),
            columns=(Column("payload", "payload"), *columns),
            rows=rows_of(
                {"payload": payload, **dict.fromkeys(names), **rates[payload]} for payload in rates
            ),
            notes=(*(f"{name}: {counts[name]} iterations" for name in names), ""),
        )
