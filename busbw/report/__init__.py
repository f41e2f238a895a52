"""Verdicts and environments as text and as documents: the only room where numbers become words.

Takes values, returns lines; prints nothing, writes no file, judges nothing.
"""

from .header import header_lines
from .results import results
from .table import Line, change_lines, measured_lines, table

__all__ = ["Line", "change_lines", "header_lines", "measured_lines", "results", "table"]
