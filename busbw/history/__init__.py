"""Every session that measured, appended: what each case took, how it was judged, and with what.

Append-only files, as strict at the door as baselines; one session's lines are written together.
`files` appends and reads them, `levels` has what they amount to over time; nothing is judged here.
"""

from .acknowledged import Acknowledged, acknowledged
from .files import Appended, HistoryError, Read, append, append_from, check, folders, read, read_all
from .levels import CaseHistory, CaseSession, LevelChange, MachineHistory, machine_history
from .lines import Line, new_session, parsed
from .sessions import Series, earlier

__all__ = [
    "Acknowledged",
    "Appended",
    "CaseHistory",
    "CaseSession",
    "HistoryError",
    "LevelChange",
    "Line",
    "MachineHistory",
    "Read",
    "Series",
    "acknowledged",
    "append",
    "append_from",
    "check",
    "earlier",
    "folders",
    "machine_history",
    "new_session",
    "parsed",
    "read",
    "read_all",
]
