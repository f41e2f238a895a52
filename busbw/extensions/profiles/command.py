"""`busbw trace DIR...`: print the bandwidth table of profiler recordings.

The table has a row for each payload and a column for each slice (a set of chips, such as v2-8).
Only files with the suffixes of recordings are read. A folder holds a single recording, with a file
for each host: TensorBoard's layout is `plugins/profile/<time>/<host>.<format>`.
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
from busbw.cli import Subparsers, add_command
from busbw.collectives import COLLECTIVES
from busbw.collectives.base import RankGroups
from busbw.model.field_types import SHORTEST_S
from busbw.model.words import MIB, parse_payload, payload_text
from busbw.report.table import Column, Table, TextLine, make_rows, render
from busbw.session.option import argument_type, parse_path, word_list_type
from busbw.storage import TooLargeError

from .recordings import (
    UNKNOWN_KIND,
    XPLANE_SUFFIX,
    RecordedCollective,
    find_collectives,
    read_events,
)

# The suffixes of files of a recording. The last format is the best, because profilers leave later
# events out of files in the other formats.
_SUFFIXES = ("trace.json", "trace.json.gz", XPLANE_SUFFIX)
_DEVICE_PLANE_PATTERN = re.compile(r"^/device:(?:TPU|GPU):(\d{1,9})$")
# The names of folders in the project "TPU_All_reduce" (2019), which measured TPU v2. In these names
# scale16 is 16M, and scale-16 is 1M / 16.
_TPU_V2_FOLDER = re.compile(
    r"tpu(?:v2n)?(?P<slice>\d+)a?_bs\d+_(?:scale(?P<mib>\d+)|-?scale-?(?P<divisor>[1-9]\d*))"
)


def _compile_pattern_with_group(group: str, text: str) -> re.Pattern[str]:
    """Compile the regular expression `text`, which must have a named group ``(?P<group>...)``.

    `group` is the name of this group. Raises ValueError if the expression is invalid or lacks the
    group. The expression will search a text in which each line is the name of a folder.
    """
    try:
        # MULTILINE, because each folder of a path is a line of the text that is searched.
        if group in (pattern := re.compile(text, re.MULTILINE)).groupindex:
            return pattern
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    raise ValueError(f"{text!r} has no group (?P<{group}>...)")


def add_subcommand(commands: Subparsers) -> None:
    """Add the subcommand `busbw trace` and its options to `commands`."""
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
        type=argument_type(parse_payload),
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
        type=argument_type(functools.partial(_compile_pattern_with_group, "slice")),
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
    add(
        "--payload",
        type=argument_type(parse_payload),
        metavar="SIZE",
        help="Use this payload, such as 16M, if the recording does not contain it",
    )
    add(
        "--payload-from",
        type=argument_type(functools.partial(_compile_pattern_with_group, "payload")),
        metavar="REGEX",
        help="Without --payload: read the payload from the folder's name, by a regular expression "
        "with a group (?P<payload>...)",
    )


def run(options: argparse.Namespace) -> int:
    """Print the tables or, with --json, JSON; print problems on standard error.

    Returns the exit code: 1 if there is a problem, such as a file that cannot be read, else 0.
    """
    recordings = _files_by_folder_and_host(options.paths)
    problems = (
        []
        if recordings
        else [
            f"{', '.join(map(str, options.paths))}: no recording; "
            f"expected *{', *'.join(reversed(_SUFFIXES))}"
        ]
    )
    cells = bandwidth_cells(recordings, options, problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    document = {"schema_version": 3, "cells": cells, "problems": problems}
    table = "\n".join(render("text", *bandwidth_tables(cells)))
    print(json.dumps(document, indent=1) if options.json else table)
    return int(bool(problems))


def _files_by_folder_and_host(paths: Iterable[Path]) -> Mapping[Path, Mapping[str, Path]]:
    """Return the files of the recording in each folder: a file for each host, by the host's name.

    `paths` are files, and folders that are searched with their subfolders. If a host has files of
    several formats, the file whose suffix is last in `_SUFFIXES` is used. A file for the viewer
    Perfetto is left out, because JAX writes the same events into another file of the host, too.
    """
    recordings: dict[Path, dict[str, Path]] = defaultdict(dict)
    folders = [Path(os.path.realpath(path)) for path in paths]
    for suffix, path in itertools.product(_SUFFIXES, folders):
        for file in (path, *sorted(path.rglob(f"*{suffix}"))):
            if file.name.endswith(suffix) and not file.name.startswith("perfetto_"):
                recordings[file.parent][file.name.removesuffix(suffix).rstrip("._")] = file
    return recordings


def bandwidth_cells(
    recordings: Mapping[Path, Mapping[str, Path]], options: argparse.Namespace, problems: list[str]
) -> list[dict[str, Any]]:
    """Return the cells of the bandwidth tables, sorted; each cell is a JSON object.

    A cell has the iterations and the bandwidth of a collective with a certain payload, column and
    number of ranks. All recordings of such a collective share the cell.

    Args:
        recordings: The files by folder and host, as returned by `_files_by_folder_and_host`.
        options: The options of `busbw trace`.
        problems: A list to which this function appends a sentence for each file that cannot be
            read, for each recording without a collective, and for each collective without a cell.

    """
    times_by_cell: dict[tuple[str, int, str, int], list[dict[str, float]]] = defaultdict(list)
    for folder, hosts in recordings.items():
        devices, runs_by_instruction = set[str](), defaultdict(list)
        for host, path in hosts.items():
            try:
                events = read_events(path, options.size_limit)
                for collective in find_collectives(events, host):
                    if collective.kind in (*options.collective, UNKNOWN_KIND):
                        runs_by_instruction[collective[:4]].append(collective)
                devices |= {
                    f"{host}/{number}"
                    for event in events
                    for number in _DEVICE_PLANE_PATTERN.findall(event.plane)
                }
            except ValueError as error:
                hint = "; raise --size-limit" if isinstance(error, TooLargeError) else ""
                problems.append(f"{path}: {error}{hint}")
                # An unreadable host counts as a device without collectives, so that the recording
                # is incomplete.
                devices.add(host)
        if not runs_by_instruction:
            problems.append(f"{folder}: no {' or '.join(options.collective)} with its time in it")
        unsized = [
            name for _, payload_bytes, _, name in runs_by_instruction if payload_bytes is None
        ]
        if len(unsized) > 1:
            print(f"warning: one payload is taken for all of {', '.join(unsized)}", file=sys.stderr)
        for runs in runs_by_instruction.values():
            try:
                iterations = _iteration_times(runs, devices, is_partial=options.partial)
                times_by_cell[_table_cell_key(folder, runs[0], options, len(iterations[0]))] += (
                    iterations
                )
            except ValueError as error:
                problems.append(f"{folder}: {runs[0].kind}: {error}")
    return [_bandwidth_cell(*key, times) for key, times in sorted(times_by_cell.items())]


def _iteration_times(
    runs: Sequence[RecordedCollective], devices: set[str], *, is_partial: bool
) -> list[dict[str, float]]:
    """Return the times of each iteration of an instruction: the seconds on each device.

    An iteration is a run of the instruction on all devices. The k-th call on a device belongs to
    the k-th call on all other devices, and the i-th run in a call belongs to the i-th run in that
    call on all other devices. The first run of each call is a warm-up, which is left out. If each
    call has a single run, only the first call is a warm-up.

    Args:
        runs: All runs of an instruction, on all devices.
        devices: The names of all devices in the recording.
        is_partial: Whether devices that lack runs are left out with a warning. Otherwise such
            devices raise ValueError.

    Raises:
        ValueError: The recording lacks runs or devices, or has only warm-ups.

    """
    calls: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for collective in runs:
        calls[collective.device][collective.call].append(collective.duration_s)
    groups = runs[0].groups
    # If as many devices as the groups name took part, the other devices were idle and lack nothing.
    has_all_ranks = groups and len(calls) >= groups.rank_count
    expected_devices = sorted(calls if has_all_ranks else devices.union(calls))
    # The numbers of runs in each call.
    run_counts = {name: list(map(len, calls[name].values())) for name in expected_devices}
    most = max(run_counts.values(), key=sum)
    complete_devices = [name for name, counts in run_counts.items() if counts == most]
    problems = [
        f"{name} has {sum(counts)} of {sum(most)}"
        for name, counts in run_counts.items()
        if counts != most
    ]
    if groups and len(run_counts) < groups.rank_count:
        problems.append(
            f"{groups.rank_count} devices take part, and {len(run_counts)} are recorded"
        )
    if problems and not is_partial:
        raise ValueError(f"{', '.join(problems)}; --partial reads the rest")
    if problems:
        print(f"warning: {runs[0].kind}: {', '.join(problems)}", file=sys.stderr)
    warm_ups = {0} if max(most) == 1 else {0, *itertools.accumulate(most)}
    times_s = zip(*(itertools.chain(*calls[name].values()) for name in complete_devices))
    iterations = [
        dict(zip(complete_devices, times))
        for index, times in enumerate(times_s)
        if index not in warm_ups and max(times) >= SHORTEST_S
    ]
    if not iterations:
        raise ValueError("there is no time but that of the warm-up")
    return iterations


def _table_cell_key(
    folder: Path, collective: RecordedCollective, options: argparse.Namespace, device_count: int
) -> tuple[str, int, str, int]:
    """Return the key of the cell of the table to which a recorded collective belongs.

    The key is a tuple:

    - the kind of collective
    - the payload in bytes: from the recording, or else from --payload, or else from the names of
      folders
    - the name of the column: the slice in the names of folders, such as ``v2-8``, or else the
      number of ranks; if there are several groups of ranks, also the size of a group
    - the number of ranks in a group

    Names of inner folders take precedence over names of outer folders.

    Args:
        folder: The folder of the recording.
        collective: A recorded collective of the cell.
        options: The options of `busbw trace`.
        device_count: The number of devices that took part. The number counts as that of ranks if
            the recording does not contain the groups of ranks.

    Raises:
        ValueError: The kind of collective or the payload is not known.

    """
    folder_names = "\n".join(reversed(folder.parts))
    slice_match = (options.slice_from or _TPU_V2_FOLDER).search(folder_names)
    payload_match = (options.payload_from or _TPU_V2_FOLDER).search(folder_names)
    payload_bytes = collective.payload_bytes or options.payload
    if payload_match and not payload_bytes:
        payload_bytes = (
            parse_payload(payload_match["payload"] or "")
            if options.payload_from
            else MIB * int(payload_match["mib"] or 0) or MIB // int(payload_match["divisor"])
        )
    if collective.kind == UNKNOWN_KIND:
        raise ValueError("the recording does not say which collective its kernels run")
    if not payload_bytes:
        raise ValueError("the recording does not say the payload; give --payload or --payload-from")
    groups = collective.groups or RankGroups(1, device_count)
    column = f"{groups.rank_count} ranks"
    if slice_match:
        column = f"{'' if options.slice_from else 'v2-'}{slice_match['slice'] or ''}"
    if groups.group_count > 1:
        column = f"{column}, groups of {groups.size}"
    return collective.kind, payload_bytes, column, groups.size


def _bandwidth_cell(
    kind: str, payload_bytes: int, column: str, ranks: int, iterations: Sequence[dict[str, float]]
) -> dict[str, Any]:
    """Return a cell of the table as a JSON object, with algbw and busbw of the median iteration.

    The time of an iteration is the time of its slowest device.

    Args:
        kind: The kind of collective, such as ``all_reduce``.
        payload_bytes: The payload.
        column: The name of the column, such as ``v2-8``.
        ranks: The number of ranks in each group that runs the collective.
        iterations: The iterations, each of which maps devices to seconds.

    """
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
    """Yield a table of algbw in GB/s for each kind of collective, such as ``all_reduce``.

    `cells` are the JSON objects that `bandwidth_cells` returns, sorted by kind.
    """
    for kind, cells_of_kind in itertools.groupby(cells, lambda cell: str(cell["collective"])):
        rows: dict[str, dict[str, object]] = defaultdict(dict)
        counts = Counter[str]()
        for cell in cells_of_kind:
            rows[cell["payload"]][cell["slice"]] = cell["algbw_gb_per_s"]
            counts[cell["slice"]] += len(cell["iterations"])
        names = sorted(counts, key=lambda name: (len(name), name))
        columns = (
            Column(name, f"{name} (GB/s)", text="{:.4g}".format, is_fitted_to_cells=True, gap=2)
            for name in names
        )
        yield Table(
            title=TextLine(
                f"{kind}, algbw = payload / time, GB = 10^9 bytes\n"
                "The time is the median over iterations of the slowest rank, without warm-ups."
            ),
            columns=(Column("payload", "payload", is_fitted_to_cells=True), *columns),
            rows=make_rows(
                {"payload": payload, **dict.fromkeys(names), **row} for payload, row in rows.items()
            ),
            notes=tuple(f"{name}: {counts[name]} iterations" for name in names),
            missing_text="-",
        )
