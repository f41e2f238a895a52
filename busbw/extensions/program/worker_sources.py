"""Find the line of the user's own code from which an instruction of HLO comes.

XLA writes the line in one of two forms. The metadata of an instruction contain a file and a line
or, since 2025, the number of a stack frame. In the second form, tables of files, lines and frames
are at the head of the program.
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
# More than the depth of any Python stack; frames of a damaged text may form a circle.
_MOST_FRAMES = 1000


class UserSources:
    """The source lines of a program's instructions.

    `head` is the text before the first computation. Paths are shown relative to `source_folder`;
    other paths are shortened.
    """

    def __init__(self, head: str, source_folder: str = "") -> None:
        tables = dict(_TABLE.findall(head))
        files = dict(_FILE.findall(tables.get("FileNames", "")))
        places = {
            number: (files.get(file, ""), line)
            for number, file, line in _PLACE.findall(tables.get("FileLocations", ""))
        }
        frames = _FRAME.findall(tables.get("StackFrames", ""))
        # The outermost frame has no parent. In some versions of XLA each parent is printed as its
        # number plus 1; a frame then seems to be its own parent.
        shift = 1 if any(number == parent for number, _, parent in frames) else 0
        self._source_folder = source_folder
        self._frames = {
            int(number): (places.get(place, ("", "")), int(parent or 0) - shift)
            for number, place, parent in frames
        }

    def user_line_of(self, instruction_text: str) -> str:
        """Return the innermost line of the user's own code, such as ``train.py:88``.

        `instruction_text` is the HLO of an instruction. The result is empty if the instruction has
        no line outside of libraries.
        """
        places = _LINE_OF.findall(instruction_text)
        frame = int("".join(_FRAME_OF.findall(instruction_text)[:1]) or 0)
        while frame in self._frames and len(places) < _MOST_FRAMES:
            place, frame = self._frames[frame]
            places.append(place)
        user_places = (place for place in places if place[0] and not is_in_library(place[0]))
        return next((f"{self._shortened_path(file)}:{number}" for file, number in user_places), "")

    def _shortened_path(self, file: str) -> str:
        """Return a path from the root, or only its last parts, without the user's home folder."""
        path = PurePath(file)
        if self._source_folder and path.is_relative_to(self._source_folder):
            return str(path.relative_to(self._source_folder))
        return "/".join(path.parts[-_SHOWN_PARTS:])


def is_in_library(file: str) -> bool:
    """Return whether a file belongs to an installed package or to Python."""
    return _LIBRARIES.search(file) is not None
