"""The documents that `--results` writes, read back as the values that they were made of.

Measured sessions, and compiled ones. Reads no file.
"""

from .documents import check_results, read_results, session_of
from .fields import DocumentError
from .values import CompiledSession, Session

__all__ = [
    "CompiledSession",
    "DocumentError",
    "Session",
    "check_results",
    "read_results",
    "session_of",
]
