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
from .estimate import Asked, Estimated, LinkUsed, estimate_document, estimate_lines
from .estimate_figure import estimate_figure, is_estimate_figure
from .header import header_lines, reference_lines
from .parameter_server import ParameterServerRow, PublishedRow, parameter_server_page
from .prediction import prediction_page, prediction_table
from .prediction_row import PredictedStep
from .renderers import RENDERERS, rendered
from .results import SCHEMA as RESULTS_SCHEMA
from .results import is_results, results, without_homes
from .session import change_tables, measured_table, session_tables
from .table import Column, Row, Table, TextLine
from .tpu_v2 import tpu_v2_page
from .tpu_v2_cell import TpuV2Cell, TpuV2Slice, Way
from .traces import RATES, Problem, Times, TraceCell, Unknown, trace_document, trace_lines

__all__ = [
    "RATES",
    "RENDERERS",
    "RESULTS_SCHEMA",
    "Asked",
    "Column",
    "CurveGroup",
    "Estimated",
    "LinkUsed",
    "ParameterServerRow",
    "PredictedStep",
    "Problem",
    "PublishedRow",
    "Row",
    "Table",
    "TextLine",
    "Times",
    "TpuV2Cell",
    "TpuV2Slice",
    "TraceCell",
    "Unknown",
    "Way",
    "change_tables",
    "compiled_change_lines",
    "compiled_document",
    "compiled_tables",
    "compiler_lines",
    "estimate_document",
    "estimate_figure",
    "estimate_lines",
    "header_lines",
    "is_estimate_figure",
    "is_results",
    "measured_table",
    "parameter_server_page",
    "prediction_page",
    "prediction_table",
    "reference_lines",
    "release_lines",
    "rendered",
    "results",
    "session_tables",
    "tpu_v2_page",
    "trace_document",
    "trace_lines",
    "without_homes",
]
