"""Verdicts, environments and recordings as text, documents and pictures.

Takes values and returns Tables, which `renderers` turn into lines, Charts, which `pictures` draws,
and lines where there is neither; prints nothing, writes no file, judges nothing.
"""

from .answer import answer_lines, failure_lines
from .chart import Axis, Band, Chart, Direction, Edge, Mark, Rule, Scale, Series, Style
from .charts import (
    PublishedCurve,
    PublishedPoint,
    bandwidth,
    case_history,
    memory,
    published,
    ratios,
)
from .drawing import LIGHT, Size, specification
from .heatmap import Gap, Heatmap, HeatmapMark, HeatmapRow, Picture, table_of
from .nights import (
    CaseNight,
    CaseNights,
    Level,
    LevelChange,
    MachineNights,
    Night,
    SeriesNights,
    StackChange,
)
from .page import Page, Section, html, is_page, missing_for_pages, page
from .pictures import PictureError, is_picture, png, style_sheet, svg, variables
from .reading import CompiledSession, DocumentError, Session, read_results, session_of
from .renderers import RENDERERS, rendered
from .renderers.markdown import filled, item
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
from .sparkline import sparkline
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
    "LIGHT",
    "RATES",
    "RENDERERS",
    "RESULTS_SCHEMA",
    "Axis",
    "Band",
    "CaseNight",
    "CaseNights",
    "Chart",
    "Column",
    "CompiledSession",
    "CurveGroup",
    "Direction",
    "DocumentError",
    "Edge",
    "Gap",
    "Heatmap",
    "HeatmapMark",
    "HeatmapRow",
    "Level",
    "LevelChange",
    "MachineNights",
    "Mark",
    "Night",
    "Page",
    "Picture",
    "PictureError",
    "Problem",
    "PublishedCurve",
    "PublishedPoint",
    "Row",
    "Rule",
    "Scale",
    "Section",
    "Series",
    "SeriesNights",
    "Session",
    "Size",
    "StackChange",
    "Style",
    "Table",
    "TextLine",
    "Times",
    "TraceCell",
    "Unknown",
    "answer_lines",
    "attributes",
    "bandwidth",
    "case_history",
    "change_tables",
    "compiled_change_lines",
    "compiled_document",
    "compiled_tables",
    "compiler_lines",
    "failure_lines",
    "fields_of",
    "filled",
    "header_lines",
    "html",
    "is_page",
    "is_picture",
    "is_results",
    "item",
    "legend",
    "measured_table",
    "memory",
    "missing_for_pages",
    "page",
    "percent_text",
    "png",
    "published",
    "ratios",
    "read_results",
    "reference_lines",
    "release_lines",
    "rendered",
    "results",
    "rows_of",
    "session_of",
    "session_tables",
    "span_text",
    "sparkline",
    "specification",
    "style_sheet",
    "svg",
    "table_of",
    "text_table",
    "trace_document",
    "trace_lines",
    "training_medians",
    "variables",
    "versions_text",
    "without_homes",
]
