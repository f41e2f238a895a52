"""Baselines on disk: found by their Environment key, strict at the door, written atomically, once.

`baselines/<device kind>[-<cores>c]/<ranks>r[-<mesh>][-<hosts>h<processes>p]/` holds one file
per framework, collective and strategy. Versions are recorded and never matched. Reads and
writes files; judges nothing and starts nothing.
"""

from .document import BaselineError
from .key import folder_of
from .published import Published, find_published
from .store import Change, Found, find, save

__all__ = [
    "BaselineError",
    "Change",
    "Found",
    "Published",
    "find",
    "find_published",
    "folder_of",
    "save",
]
