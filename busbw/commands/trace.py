"""`busbw trace DIR...`: print the bandwidth table of profiler recordings.

Recordings are found by their names. TensorBoard's layout is
`plugins/profile/<time>/<host>.<format>`, a folder for each session with the files of its hosts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from busbw import metrics
from busbw.collectives import COLLECTIVES
from busbw.model.words import payload_text
from busbw.report.traces import RATES, TraceCell, trace_document, trace_lines
from busbw.session import forms
from busbw.session.folders import STANDARD_OUTPUT
from busbw.session.option import Option, file_option, folder_option
from busbw.traces.chrome import MOST_BYTES

from . import Commands, add_command, add_options, check_file, json_with, write_file
from .cells import FORMATS, PERFETTO, Gathering, Labels

ORDER = 1
_EXPECTED = f"expected {', '.join(f'*{suffix}' for suffix in FORMATS)} or {PERFETTO}"
_DESCRIPTION = """
Print the bandwidth of the collectives in profiler recordings (*.xplane.pb, *.trace.json.gz), with
a row for each payload and a column for each slice. Each figure is the median over iterations of
the slowest rank on any host; the first iteration of each call is left out.
"""


def _pattern(group: str) -> Callable[[str], object]:
    """A parser of a regular expression with the named `group`."""

    def parse(text: str) -> re.Pattern[str]:
        try:
            compiled = re.compile(text)
        except re.error as error:
            raise ValueError(f"{text!r} is no regular expression: {error}") from error
        if group not in compiled.groupindex:
            raise ValueError(f"{text!r} has no group (?P<{group}>...)")
        return compiled

    return parse


# The payload, where the recording does not say it: one of these.
_PAYLOADS = (
    Option(
        name="payload",
        parse=metrics.parse_payload,
        metavar="SIZE",
        help="Use this payload, such as 16M, if the recording does not contain it",
    ),
    Option(
        name="payload_from",
        parse=_pattern("payload"),
        metavar="REGEX",
        help="Read the payload from the folder's name: a regular expression with a group "
        "(?P<payload>...)",
    ),
)
_OPTIONS = (
    folder_option("paths", "A folder with recordings, or a recording", nargs="+"),
    Option(
        name="size_limit",
        parse=metrics.parse_payload,
        default=payload_text(MOST_BYTES),
        metavar="SIZE",
        help="Read at most this much of an unpacked recording (about a million events of 1 KiB); a "
        "larger one is refused as damaged",
    ),
    Option(
        name="partial",
        flag=True,
        help="Read a recording also if it lacks devices or hosts that it names",
    ),
    Option(
        name="slice_from",
        parse=_pattern("slice"),
        metavar="REGEX",
        help="Take the name of the column from the folder's name: a regular expression with a "
        "group (?P<slice>...). Default: the number of ranks",
    ),
    Option(
        name="ranks",
        parse=forms.whole(2),
        metavar="N",
        help="Compute with N ranks (default: the groups that the recording names, else the devices "
        "seen)",
    ),
    Option(
        name="collective",
        parse=forms.words(tuple(COLLECTIVES)),
        default="all_reduce",
        metavar="KINDS",
        help=f"Show these collectives, as a comma list of {', '.join(COLLECTIVES)}",
    ),
    Option(name="rate", default="algbw", choices=RATES, help="Show this rate"),
    Option(name="oom_for_missing", flag=True, help="Print OOM for a payload that a column lacks"),
    file_option(
        "json",
        "Write everything to FILE as JSON; - writes it to standard output, instead of the table",
    ),
)


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "trace",
        run,
        *_OPTIONS,
        help="Print a bandwidth table from profiler recordings of any program",
        description=_DESCRIPTION,
        example="busbw trace recordings --collective=all_reduce,all_gather",
    )
    add_options(parser.add_mutually_exclusive_group(), _PAYLOADS)


def run(options: argparse.Namespace) -> int:
    gathering = Gathering(
        labels=Labels(
            payload_bytes=options.payload,
            payload_from=options.payload_from,
            slice_from=options.slice_from,
        ),
        kinds=options.collective,
        ranks=options.ranks,
        size_limit=options.size_limit,
        partial=options.partial,
    )
    files = [file for path in options.paths for file in _files_in(path, gathering.note)]
    if options.json != STANDARD_OUTPUT:
        # It overwrites its own earlier output, and never a recording.
        ours, inputs = json_with("schema_version", "cells"), [*options.paths, *files]
        check_file("--json", options.json, "a table of busbw trace", ours, inputs)
    for folder, hosts in sorted(_sessions(files).items()):
        gathering.add(folder, hosts)
    cells = gathering.cells()
    for problem in gathering.problems:
        print(f"{problem.path}: {problem.text}", file=sys.stderr)
    if not cells:
        print("nothing was read: there is no table", file=sys.stderr)
    if options.json != STANDARD_OUTPUT:
        missing = "OOM" if options.oom_for_missing else ""
        lines = trace_lines(cells, rate=options.rate, missing=missing)
        for line in (*lines, *(f"warning: {text}" for text in gathering.warnings)):
            print(line)
    code = 0 if options.json is None else _written(gathering, cells, options.json)
    return code or int(bool(gathering.problems) or not cells)


def _written(gathering: Gathering, cells: Sequence[TraceCell], path: Path) -> int:
    document = trace_document(
        cells,
        files=gathering.files,
        problems=gathering.problems,
        warnings=gathering.warnings,
        unknown=gathering.unknown,
    )
    text = json.dumps(document, indent=1) + "\n"
    if path != STANDARD_OUTPUT:
        return write_file(text, path)
    print(text, end="")
    return 0


def _files_in(path: Path, unread: Callable[[Path, str], None]) -> list[Path]:
    """Return the recordings at or below `path`.

    `unread` gets `path` if there is none, and each folder that cannot be listed, with the reason.
    """

    def note(error: OSError) -> None:
        unread(Path(error.filename), error.strerror or str(error))

    if path.is_dir():
        # Links to folders are not followed: they may lead back.
        folders = ((Path(name), names) for name, _, names in os.walk(path, onerror=note))
        files = sorted(folder / name for folder, names in folders for name in _recordings(names))
        reason = f"no recording in it; {_EXPECTED}"
    elif os.path.lexists(path):
        files = [path] if _recordings([path.name]) else []
        reason = f"not a recording; {_EXPECTED}, or a folder that has some"
    else:
        files, reason = [], "there is no such file or folder"
    if not files:
        unread(path, reason)
    return files


def _recordings(names: Sequence[str]) -> list[str]:
    """Return the names of recordings among those of a folder; Perfetto's only if it is alone."""
    return [name for name in names if name.endswith(FORMATS)] or [
        name for name in names if name == PERFETTO
    ]


def _sessions(files: Iterable[Path]) -> Mapping[Path, Mapping[str, Sequence[Path]]]:
    """By folder and host; a file that is named twice, or by a link too, counts once."""
    named: dict[str, Path] = {}
    for file in sorted(files):
        # The target of a link may have any name.
        named.setdefault(os.path.realpath(file), Path(os.path.realpath(file.parent)) / file.name)
    hosts: dict[Path, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for suffix in (*FORMATS, PERFETTO):
        for path in sorted(one for one in named.values() if one.name.endswith(suffix)):
            hosts[path.parent][path.name.removesuffix(suffix)].append(path)
    return hosts
