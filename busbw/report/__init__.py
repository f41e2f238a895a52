"""Verdicts, environments and recordings as text and documents: only here numbers become words.

Takes values, returns Tables, which `renderers` make lines of, and lines where there is no table;
prints nothing, writes no file, judges nothing.
"""

from .compiled import (
    compiled_change_lines,
    compiled_document,
    compiled_tables,
    compiler_lines,
    release_lines,
)
from .curve import CurveGroup
from .header import header_lines, reference_lines
from .renderers import RENDERERS, rendered
from .results import SCHEMA as RESULTS_SCHEMA
from .results import is_results, results, without_homes
from .session import change_tables, measured_table, session_tables
from .table import Column, Row, Table, TextLine, attributes, percent_text, rows_of, text_table
from .traces import RATES, Problem, Times, TraceCell, Unknown, trace_document, trace_lines

__all__ = [
    "RATES",
    "RENDERERS",
    "RESULTS_SCHEMA",
    "Column",
    "CurveGroup",
    "Problem",
    "Row",
    "Table",
    "TextLine",
    "Times",
    "TraceCell",
    "Unknown",
    "attributes",
    "change_tables",
    "compiled_change_lines",
    "compiled_document",
    "compiled_tables",
    "compiler_lines",
    "header_lines",
    "is_results",
    "measured_table",
    "percent_text",
    "reference_lines",
    "release_lines",
    "rendered",
    "results",
    "rows_of",
    "session_tables",
    "text_table",
    "trace_document",
    "trace_lines",
    "without_homes",
]
