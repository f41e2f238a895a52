"""Verdicts, environments and recordings as text and documents.

Takes values and returns Tables, which `renderers` turn into lines, and lines where there is no
table; prints nothing, writes no file, judges nothing.
"""

from .answer import answer_lines, failure_lines
from .renderers import RENDERERS, rendered
from .renderers.markdown import filled, item, section
from .results import SCHEMA as RESULTS_SCHEMA
from .results import compiled_document, fields_of, is_results, results, without_homes
from .session import (
    CurveGroup,
    change_tables,
    compiled_change_lines,
    compiler_lines,
    header_lines,
    measured_table,
    reference_lines,
    session_tables,
    versions_text,
)
from .table import (
    Column,
    Row,
    Table,
    TextLine,
    attributes,
    percent_text,
    rows_of,
    span_text,
    text_table,
)
from .traces import RATES, Problem, Times, TraceCell, Unknown, trace_document, trace_lines
from .training import training_medians
from .verdicts import compiled_tables, legend, release_lines

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
    "answer_lines",
    "attributes",
    "change_tables",
    "compiled_change_lines",
    "compiled_document",
    "compiled_tables",
    "compiler_lines",
    "failure_lines",
    "fields_of",
    "filled",
    "header_lines",
    "is_results",
    "item",
    "legend",
    "measured_table",
    "percent_text",
    "reference_lines",
    "release_lines",
    "rendered",
    "results",
    "rows_of",
    "section",
    "session_tables",
    "span_text",
    "text_table",
    "trace_document",
    "trace_lines",
    "training_medians",
    "versions_text",
    "without_homes",
]
