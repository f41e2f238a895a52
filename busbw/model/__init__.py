"""The words: enums and frozen values that cross every border of the project.

Imports nothing of ours and nothing but the standard library, because a worker under a foreign
interpreter (Python 3.10 or newer) gets this package too. Inside there are only seconds and
bytes; a unit is in the name. No value here knows pytest, a framework, a file or a clock.
"""

from .baseline import Baseline, BaselineSession
from .compiled import (
    Compiled,
    CompiledBaseline,
    CompiledVerdict,
    Compiler,
    CompileSpec,
    Difference,
    Topology,
)
from .machine import VIRTUAL_RANKS, DeviceSet, Environment, EnvironmentKey, Probe
from .mesh import AXES, check_axes, extents_of, groups_of
from .parameter_server import ParameterServerRun, ParameterServerTraining, Updates
from .request import Case, Injection, Plan, Spec
from .result import Failure, Measurement, Proof, Run
from .training import (
    DENSE,
    DENSE_ROWS,
    LEARNING_RATE,
    Batch,
    TrainingStep,
    dense_step,
    row_bytes,
)
from .verdict import Ceiling, Reference, SessionVerdict, Summary, Verdict
from .words import (
    GIB,
    KIB,
    MIB,
    Clock,
    Device,
    Extra,
    FailureKind,
    Found,
    Outcome,
    Placement,
    SessionOutcome,
    Where,
    bytes_text,
    payload_text,
    plural,
    rate_text,
    seconds_text,
)

__all__ = [
    "AXES",
    "DENSE",
    "DENSE_ROWS",
    "GIB",
    "KIB",
    "LEARNING_RATE",
    "MIB",
    "VIRTUAL_RANKS",
    "Baseline",
    "BaselineSession",
    "Batch",
    "Case",
    "Ceiling",
    "Clock",
    "CompileSpec",
    "Compiled",
    "CompiledBaseline",
    "CompiledVerdict",
    "Compiler",
    "Device",
    "DeviceSet",
    "Difference",
    "Environment",
    "EnvironmentKey",
    "Extra",
    "Failure",
    "FailureKind",
    "Found",
    "Injection",
    "Measurement",
    "Outcome",
    "ParameterServerRun",
    "ParameterServerTraining",
    "Placement",
    "Plan",
    "Probe",
    "Proof",
    "Reference",
    "Run",
    "SessionOutcome",
    "SessionVerdict",
    "Spec",
    "Summary",
    "Topology",
    "TrainingStep",
    "Updates",
    "Verdict",
    "Where",
    "bytes_text",
    "check_axes",
    "dense_step",
    "extents_of",
    "groups_of",
    "payload_text",
    "plural",
    "rate_text",
    "row_bytes",
    "seconds_text",
]
