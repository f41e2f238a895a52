"""The documents that `--results` writes, read back as the values that they were made of.

Measured sessions of every schema from 1 on, and compiled ones: what later schemas added is empty
for the earlier ones, and what earlier schemas had besides is left out. Reads no file.
"""

from .documents import read_results, session_of
from .fields import DocumentError
from .values import CompiledSession, Session

__all__ = ["CompiledSession", "DocumentError", "Session", "read_results", "session_of"]
