"""Which line of the user's own code an instruction comes from.

XLA prints either file and line in an instruction's metadata, or, since 2025, the number of a stack
frame, with tables of files, places and frames at the head of the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

_TABLE = re.compile(r"^(FileNames|FileLocations|StackFrames)\n((?:\d+ .*\n?)*)", re.MULTILINE)
_FILE = re.compile(r'^(\d{1,9}) "(.*)"$', re.MULTILINE)
_PLACE = re.compile(r"^(\d{1,9}) \{file_name_id=(\d{1,9}) .*?\bline=(\d{1,9})\b", re.MULTILINE)
_FRAME = re.compile(
    r"^(\d{1,9}) \{file_location_id=(\d{1,9})(?: parent_frame_id=(\d{1,9}))?\b", re.MULTILINE
)

_FRAME_OF = re.compile(r"\bstack_frame_id=(\d{1,9})\b")
_LINE_OF = re.compile(r'\bsource_file="([^"]*)" source_line=(\d+)')
_OP_NAME = re.compile(r'\bop_name="((?:[^"\\]|\\.)*)"')

# Whatever lies below such a folder is nobody's own.
_LIBRARIES = re.compile(r"/(?:site|dist)-packages/|/lib/python\d")
_SHOWN_PARTS = 2


@dataclass(frozen=True)
class Frames:
    """Places (file, line) by the numbers of frames, and the frame that each was called from."""

    places: Mapping[int, tuple[str, int]]
    parents: Mapping[int, int]
    root: str = ""

    def source_of(self, line: str) -> str:
        """Such as ``train.py:88``: the innermost frame that is the user's own; empty for none."""
        found = _FRAME_OF.search(line)
        if found is not None:
            for file, number in self._outwards(int(found[1])):
                if not is_of_a_library(file):
                    return f"{self._shown(file)}:{number}"
        noted = _LINE_OF.search(line)
        if noted is None or is_of_a_library(noted[1]):
            return ""
        return f"{self._shown(noted[1])}:{noted[2]}"

    def _outwards(self, frame: int) -> Iterator[tuple[str, int]]:
        seen: set[int] = set()
        while frame in self.places and frame not in seen:
            seen.add(frame)
            yield self.places[frame]
            frame = self.parents.get(frame, 0)

    def _shown(self, file: str) -> str:
        """Below `root` from there; of another file the last words, which name no user."""
        path = PurePath(file)
        if self.root and path.is_relative_to(self.root):
            return str(path.relative_to(self.root))
        return "/".join(path.parts[-_SHOWN_PARTS:])


def is_of_a_library(file: str) -> bool:
    return _LIBRARIES.search(file) is not None


def op_name_of(line: str) -> str:
    found = _OP_NAME.search(line)
    return found[1] if found else ""


def read(head: str, root: str = "") -> Frames:
    """Read the tables at the `head` of a program, which may have none."""
    tables = {name: text for name, text in _TABLE.findall(head)}
    files = dict(_FILE.findall(tables.get("FileNames", "")))
    places = {
        number: (files[file], int(line))
        for number, file, line in _PLACE.findall(tables.get("FileLocations", ""))
        if file in files
    }
    frames = _FRAME.findall(tables.get("StackFrames", ""))
    # The outermost frame has none; where XLA counts it as 1, each parent is one less than printed.
    shift = 1 if any(number == parent for number, _, parent in frames) else 0
    return Frames(
        places={int(number): places[place] for number, place, _ in frames if place in places},
        parents={int(number): int(parent or 0) - shift for number, _, parent in frames},
        root=root,
    )
