"""Every session that measured, appended: what each case took, how it was judged, and with what.

Append-only files, as strict at the door as baselines; one session's lines are written together.
What they say of a level is worked out elsewhere: here lines are kept, found and read.
"""

from .files import HistoryError, Read, append, check, read, read_all
from .lines import SCHEMA, Line, at_text, new_session, parsed

__all__ = [
    "SCHEMA",
    "HistoryError",
    "Line",
    "Read",
    "append",
    "at_text",
    "check",
    "new_session",
    "parsed",
    "read",
    "read_all",
]
