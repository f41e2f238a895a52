"""Baselines on disk: found by their Environment key, checked when read, written all or none.

`baselines/<device kind>[-<cores>c]/<ranks>r[-<mesh>][-<hosts>h<processes>p]/` holds one file
per framework, collective and strategy. Versions are recorded and never matched. Reads and
writes files; judges nothing and starts nothing. How much a baseline may lose is an argument.
"""

from .compiled import AcceptedCompiled, CompiledChange, find_compiled, has_compiled, save_compiled
from .document import BaselineError, read_json
from .entries import Accepted, Occasion, beyond
from .files import Draft, check_folder, check_writable, drafted, locked
from .store import (
    FoundBaseline,
    all_at,
    contents_of,
    find,
    find_published,
    frameworks_at,
    frameworks_below,
    other_ranks,
    read_published,
)
from .timed import TIMED, Document
from .updates import Change, Refusal, Rules, Saved, prune, rebase, save

__all__ = [
    "TIMED",
    "Accepted",
    "AcceptedCompiled",
    "BaselineError",
    "Change",
    "CompiledChange",
    "Document",
    "Draft",
    "FoundBaseline",
    "Occasion",
    "Refusal",
    "Rules",
    "Saved",
    "all_at",
    "beyond",
    "check_folder",
    "check_writable",
    "contents_of",
    "drafted",
    "find",
    "find_compiled",
    "find_published",
    "frameworks_at",
    "frameworks_below",
    "has_compiled",
    "locked",
    "other_ranks",
    "prune",
    "read_json",
    "read_published",
    "rebase",
    "save",
    "save_compiled",
]
