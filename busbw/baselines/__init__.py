"""Baselines on disk: found by their Environment key, strict at the door, written once, all or none.

`baselines/<device kind>[-<cores>c]/<ranks>r[-<mesh>][-<hosts>h<processes>p]/` holds one file
per framework, collective and strategy. Versions are recorded and never matched. Reads and
writes files; judges nothing and starts nothing. How much a baseline may lose is handed in.
"""

from .changes import Change, Refusal, Saved
from .compiled import (
    AcceptedCompiled,
    CompiledChange,
    find_compiled,
    has_compiled,
    save_compiled,
)
from .contents import Contents, contents_of
from .document import BaselineError, Document, read_json
from .draft import Draft, drafted
from .entries import Accepted, Occasion
from .folder import check_folder, check_writable
from .key import folder_of
from .pool import beyond
from .published import Published, find_published
from .store import FoundBaseline, Rules, find, frameworks_at, frameworks_below, save
from .timed import TIMED
from .upkeep import prune, rebase

__all__ = [
    "TIMED",
    "Accepted",
    "AcceptedCompiled",
    "BaselineError",
    "Change",
    "CompiledChange",
    "Contents",
    "Document",
    "Draft",
    "FoundBaseline",
    "Occasion",
    "Published",
    "Refusal",
    "Rules",
    "Saved",
    "beyond",
    "check_folder",
    "check_writable",
    "contents_of",
    "drafted",
    "find",
    "find_compiled",
    "find_published",
    "folder_of",
    "frameworks_at",
    "frameworks_below",
    "has_compiled",
    "prune",
    "read_json",
    "rebase",
    "save",
    "save_compiled",
]
