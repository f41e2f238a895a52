"""Every session that measured, appended: what each case took, how it was judged, and with what.

Append-only files, as strict at the door as baselines; one session's lines are written together.
`files` appends and reads them, `levels` has what they amount to over time; nothing is judged here.
"""

from .files import HistoryError, Read, append, check, read, read_all
from .levels import CaseHistory, MachineHistory, machine_history
from .lines import SCHEMA, Line, at_text, new_session, parsed

__all__ = [
    "SCHEMA",
    "CaseHistory",
    "HistoryError",
    "Line",
    "MachineHistory",
    "Read",
    "append",
    "at_text",
    "check",
    "machine_history",
    "new_session",
    "parsed",
    "read",
    "read_all",
]
