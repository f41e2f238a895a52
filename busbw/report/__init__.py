"""Verdicts, environments and recordings as text and documents: only here numbers become words.

Takes values, returns lines; prints nothing, writes no file, judges nothing.
"""

from .compiled import (
    compiled_change_lines,
    compiled_document,
    compiled_table,
    compiler_lines,
    release_lines,
)
from .curve import CurveFigures, CurveGroup, curve_lines
from .estimate import Asked, Estimated, LinkUsed, estimate_document, estimate_lines
from .estimate_figure import estimate_figure, is_estimate_figure
from .header import header_lines, reference_lines
from .parameter_server import ParameterServerRow, PublishedRow, parameter_server_page
from .prediction import prediction_document, prediction_page
from .prediction_row import PredictedStep
from .results import SCHEMA as RESULTS_SCHEMA
from .results import is_results, results, without_homes
from .table import Line, change_lines, measured_lines, table
from .tpu_v2 import tpu_v2_page
from .tpu_v2_cell import TpuV2Cell, TpuV2Slice, Way
from .traces import RATES, Problem, Times, TraceCell, Unknown, trace_document, trace_lines
from .training import training_lines

__all__ = [
    "RATES",
    "RESULTS_SCHEMA",
    "Asked",
    "CurveFigures",
    "CurveGroup",
    "Estimated",
    "Line",
    "LinkUsed",
    "ParameterServerRow",
    "PredictedStep",
    "Problem",
    "PublishedRow",
    "Times",
    "TpuV2Cell",
    "TpuV2Slice",
    "TraceCell",
    "Unknown",
    "Way",
    "change_lines",
    "compiled_change_lines",
    "compiled_document",
    "compiled_table",
    "compiler_lines",
    "curve_lines",
    "estimate_document",
    "estimate_figure",
    "estimate_lines",
    "header_lines",
    "is_estimate_figure",
    "is_results",
    "measured_lines",
    "parameter_server_page",
    "prediction_document",
    "prediction_page",
    "reference_lines",
    "release_lines",
    "results",
    "table",
    "tpu_v2_page",
    "trace_document",
    "trace_lines",
    "training_lines",
    "without_homes",
]
