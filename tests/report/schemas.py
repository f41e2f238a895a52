"""The schemas in docs/, from the classes of the documents; no test lives here.

``python -m tests.report.schemas`` writes them again.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import types
import typing
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from busbw.report.results import ABOVE_0, SIGNED, CompiledResults, MeasuredResults, Results

DOCUMENTS: Mapping[str, type[Results]] = {"results": MeasuredResults, "compiled": CompiledResults}
DOCS = Path(__file__).parents[2] / "docs"

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NOT_EMPTY = {"minItems": 1}
_ABOVE_0 = {"type": "number", "exclusiveMinimum": 0}
_PERCENT = (25, 50, 90, 99)
_FRACTION = {"minimum": 0, "maximum": 1}

# Whole numbers that are not 0.
_COUNTS = frozenset(
    {
        *("payload_bytes", "array_bytes", "memory_limit_bytes", "ranks", "cores", "hosts"),
        *("processes", "launches", "samples", "iterations", "steps", "replicas"),
    }
)

# What the type of a field does not say, by its name or with that of its class.
_MORE: Mapping[str, Mapping[str, Any]] = {
    "EnvironmentKey.ranks": {"minimum": 2},
    "began": {"format": "date-time"},
    "payload": {"pattern": "^[1-9][0-9]*[KM]?$"},
    "accuracy": _FRACTION,
    "overlap_fraction": _FRACTION,
    "outcomes": _NOT_EMPTY,
    "times_s": _NOT_EMPTY,
    "samples_s": _NOT_EMPTY,
    "epochs_s": _NOT_EMPTY,
    "modes": {"items": {"type": "array", "items": _ABOVE_0, "minItems": 1}, "maxItems": 2},
    "quantiles_s": {
        "items": {
            "type": "object",
            "properties": {f"p{percent}": _ABOVE_0 for percent in _PERCENT},
            "required": [f"p{percent}" for percent in _PERCENT],
            "additionalProperties": False,
        }
    },
}
# Words that only the other kind of document has.
_OF_OTHERS: Mapping[type[Results], frozenset[str]] = {
    MeasuredResults: frozenset({"CHANGED", "COMPILE_ERROR"}),
    CompiledResults: frozenset({"REGRESSED", "NOISY", "MACHINE_SHIFT", "SLOWER", "DRIFT"}),
}


def schema(document: type[Results]) -> dict[str, Any]:
    """The schema of documents of that class: every key is required, and no other is accepted."""
    definitions: dict[str, Any] = {}
    _of(document, "", definitions, _OF_OTHERS[document])
    own = definitions.pop(document.__name__)
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **own, "$defs": dict(sorted(definitions.items()))}


def text(document: type[Results]) -> str:
    return _laid_out(schema(document)) + "\n"


def _of(
    kind: Any, name: str, definitions: dict[str, Any], others: AbstractSet[str]
) -> dict[str, Any]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        inner = _of(arguments[0], name, definitions, others)
        return {"anyOf": [inner, {"type": "null"}]}
    if origin is tuple:
        length = len(arguments) if arguments[-1] is not Ellipsis else None
        of_pair = {} if length is None else {"minItems": length, "maxItems": length}
        return {"type": "array", "items": _of(arguments[0], name, definitions, others), **of_pair}
    if origin is not None and issubclass(origin, Mapping):
        items = _of(arguments[1], name, definitions, others)
        return {"type": "object", "additionalProperties": items}
    if hasattr(kind, "parse"):
        return {"type": "string"}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            definitions[kind.__name__] = _object(kind, definitions, others)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if issubclass(kind, enum.Enum):
        return {"enum": [one.value for one in kind if one.value not in others]}
    limits = {}
    if kind in (int, float) and name not in SIGNED:
        limits = {"exclusiveMinimum" if name in ABOVE_0 | _COUNTS else "minimum": 0}
    return {"type": _PLAIN[kind], **limits}


def _object(kind: Any, definitions: dict[str, Any], others: AbstractSet[str]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    properties = {}
    for one in dataclasses.fields(kind):
        found = _of(hints[one.name], one.name, definitions, others)
        more = _MORE.get(f"{kind.__name__}.{one.name}", _MORE.get(one.name, {}))
        found = {"const": one.default} if one.name in ("document", "version") else found
        (found["anyOf"][0] if "anyOf" in found else found).update(more)
        properties[one.name] = found
    return {
        "description": " ".join(inspect.cleandoc(kind.__doc__).split()),
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _laid_out(value: Any, indent: str = "") -> str:
    """As JSON, with an object in one line where it fits."""
    line = json.dumps(value)
    if len(indent + line) <= 100 or not isinstance(value, dict):
        return line
    inner = f"{indent}  "
    rows = [f"{inner}{json.dumps(key)}: {_laid_out(one, inner)}" for key, one in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


if __name__ == "__main__":
    for stem, of in DOCUMENTS.items():
        (DOCS / f"{stem}.schema.json").write_text(text(of), encoding="utf-8")
