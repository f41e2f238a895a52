"""What gradient synchronisation should cost a training step: formulas, each derived and sourced.

Methods as messages over links, efficiency, memory, models and links by name, measured curves read
between their points. Pure arithmetic: imports the model and nothing else, reads no file, measures
and judges nothing. Seconds, bytes, bytes per second.
"""

from .all_gather import all_gather
from .all_reduce import METHODS, Method, UnplacedError, naive_ring_rule_s, ring_rule_s
from .buckets import USUAL_BUCKET_BYTES, buckets_of, even_buckets
from .cost import Cost, Flow, Level, Link, Links, Part, Placement
from .curve import Line, MeasuredCurve, OutsideError, Reading, link_of
from .efficiency import (
    bandwidth_to_hide,
    bucketed_step_s,
    communication_for_s,
    efficiency,
    least_bandwidth,
    step_s,
)
from .links import LINKS, NamedLink, of_chip
from .memory import BytesPerParameter, Optimizer, Precision, bytes_per_parameter
from .models import DTYPE_BYTES, MODELS, Model, model_of, parameters_of
from .parameter_server import beside, dedicated
from .reduce_scatter import reduce_scatter

__all__ = [
    "DTYPE_BYTES",
    "LINKS",
    "METHODS",
    "MODELS",
    "USUAL_BUCKET_BYTES",
    "BytesPerParameter",
    "Cost",
    "Flow",
    "Level",
    "Line",
    "Link",
    "Links",
    "MeasuredCurve",
    "Method",
    "Model",
    "NamedLink",
    "Optimizer",
    "OutsideError",
    "Part",
    "Placement",
    "Precision",
    "Reading",
    "UnplacedError",
    "all_gather",
    "bandwidth_to_hide",
    "beside",
    "bucketed_step_s",
    "buckets_of",
    "bytes_per_parameter",
    "communication_for_s",
    "dedicated",
    "efficiency",
    "even_buckets",
    "least_bandwidth",
    "link_of",
    "model_of",
    "naive_ring_rule_s",
    "of_chip",
    "parameters_of",
    "reduce_scatter",
    "ring_rule_s",
    "step_s",
]
