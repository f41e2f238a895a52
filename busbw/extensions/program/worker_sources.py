"""The line of the user's own code that an instruction comes from.

XLA prints either file and line in an instruction's metadata, or, since 2025, the number of a stack
frame, with tables of files, places and frames at the head of the program.
"""

from __future__ import annotations

import re
from pathlib import PurePath

_TABLE = re.compile(r"^(FileNames|FileLocations|StackFrames)\n((?:\d+ .*\n?)*)", re.MULTILINE)
_FILE = re.compile(r'^(\d+) "(.*)"$', re.MULTILINE)
_PLACE = re.compile(r"^(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)\b", re.MULTILINE)
_FRAME = re.compile(
    r"^(\d{1,9}) \{file_location_id=(\d+)(?: parent_frame_id=(\d{1,9}))?\b", re.MULTILINE
)

_FRAME_OF = re.compile(r"\bstack_frame_id=(\d{1,9})\b")
_LINE_OF = re.compile(r'\bsource_file="([^"]*)" source_line=(\d+)')

_LIBRARIES = re.compile(r"/(?:site|dist)-packages/|/lib/python\d")
_SHOWN_PARTS = 2
# More than Python calls; frames of a damaged text may call each other.
_MOST_FRAMES = 1000


class Sources:
    """The places (file, line) that the `head` of a program names; `root` is cut off from files."""

    def __init__(self, head: str, root: str = "") -> None:
        tables = dict(_TABLE.findall(head))
        files = dict(_FILE.findall(tables.get("FileNames", "")))
        places = {
            number: (files.get(file, ""), line)
            for number, file, line in _PLACE.findall(tables.get("FileLocations", ""))
        }
        frames = _FRAME.findall(tables.get("StackFrames", ""))
        # The outermost frame has no parent; where XLA counts it as 1, each parent is printed as
        # one more than it is.
        shift = 1 if any(number == parent for number, _, parent in frames) else 0
        self._root = root
        self._frames = {
            int(number): (places.get(place, ("", "")), int(parent or 0) - shift)
            for number, place, parent in frames
        }

    def source_of(self, line: str) -> str:
        """Return the innermost place that is the user's own, such as ``train.py:88``, or ""."""
        places = _LINE_OF.findall(line)
        frame = int("".join(_FRAME_OF.findall(line)[:1]) or 0)
        while frame in self._frames and len(places) < _MOST_FRAMES:
            place, frame = self._frames[frame]
            places.append(place)
        user_places = (place for place in places if place[0] and not is_in_library(place[0]))
        return next((f"{self._shown(file)}:{number}" for file, number in user_places), "")

    def _shown(self, file: str) -> str:
        """Return a path from the root, or the last parts of another path, which name no user."""
        path = PurePath(file)
        if self._root and path.is_relative_to(self._root):
            return str(path.relative_to(self._root))
        return "/".join(path.parts[-_SHOWN_PARTS:])


def is_in_library(file: str) -> bool:
    return _LIBRARIES.search(file) is not None
