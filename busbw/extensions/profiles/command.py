"""`busbw trace DIR...`: print the bandwidth table of profiler recordings.

Recordings are found by their names. TensorBoard's layout is
`plugins/profile/<time>/<host>.<format>`, a folder for each session with the files of its hosts.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from busbw.cli import Commands, add_command
from busbw.collectives import COLLECTIVES
from busbw.extensions.profiles.recordings import XPLANE
from busbw.extensions.profiles.table import Cell, cells, lines
from busbw.session.arguments import argument, parse_path, payload, word_list

# The best format comes first: profilers leave later events out of the others.
_FORMATS = (XPLANE, "trace.json.gz", "trace.json")


def _pattern(group: str, text: str) -> re.Pattern[str]:
    try:
        if group in (rule := re.compile(text)).groupindex:
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
    paths = "A folder with recordings, or a recording"
    add("paths", nargs="+", type=parse_path, metavar="DIR", help=paths)
    add(
        "--size-limit",
        type=payload,
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
        type=argument(functools.partial(_pattern, "slice")),
        metavar="REGEX",
        help="Take the name of the column from the folder's name: a regular expression with a "
        "group (?P<slice>...). Default: the number of ranks",
    )
    add(
        "--collective",
        type=word_list(tuple(COLLECTIVES)),
        default="all_reduce",
        metavar="KINDS",
        help=f"Show these collectives, as a comma list of {', '.join(COLLECTIVES)} (default: "
        "all_reduce)",
    )
    rates = ("algbw", "busbw")
    add("--rate", default="algbw", choices=rates, help="Show this rate (default: algbw)")
    add("--json", action="store_true", help="Print everything as JSON instead of the table")
    figure = "Draw the table as a chart into FILE, SVG or PNG by its suffix"
    add("--figure", type=parse_path, metavar="FILE", help=figure)
    _add_payload(parser)


def _add_payload(parser: argparse.ArgumentParser) -> None:
    """Add the payload for recordings that do not contain it."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--payload",
        type=payload,
        metavar="SIZE",
        help="Use this payload, such as 16M, if the recording does not contain it",
    )
    group.add_argument(
        "--payload-from",
        type=argument(functools.partial(_pattern, "payload")),
        metavar="REGEX",
        help="Read the payload from the folder's name: a regular expression with a group "
        "(?P<payload>...)",
    )


def run(options: argparse.Namespace) -> int:
    problems: list[str] = []
    sessions = _sessions(options.paths)
    if not any(sessions.values()):
        problems.append(f"no recording; expected *{', *'.join(_FORMATS)}")
    figures = cells(sessions, options, problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    document = {"schema_version": 3, "cells": figures, "problems": problems}
    table = "\n".join(lines(figures, options.rate))
    print(json.dumps(document, indent=1) if options.json else table)
    if options.figure is not None and figures and _write_figure(figures, options):
        return 1
    return int(bool(problems) or not figures)


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


def _sessions(paths: Iterable[Path]) -> Mapping[Path, Mapping[str, Path]]:
    """Return the file of each host in its best format, by folder."""
    below = (os.path.realpath(file) for path in paths for file in (path, *path.rglob("*")))
    files = sorted({Path(name) for name in below if name.endswith(_FORMATS)})
    sessions: dict[Path, dict[str, Path]] = defaultdict(dict)
    for form in _FORMATS:
        for file in files:
            hosts, host = sessions[file.parent], file.name.removesuffix(form).rstrip("._")
            # JAX writes the same events once more for Perfetto if it is told to.
            if file.name.endswith(form) and (host != "perfetto" or not hosts):
                hosts.setdefault(host, file)
    return sessions
