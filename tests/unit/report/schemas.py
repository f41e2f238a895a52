"""The schemas in docs/, from the classes of the documents; no test lives here.

``python -m tests.unit.report.schemas`` writes them again.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import itertools
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from busbw import extensions
from busbw.extensions.compiled.results import CompiledResults
from busbw.model.field_types import RangeCheck, check_not_empty
from busbw.report.figures import TIMED_FIGURES
from busbw.report.results import Results

_DOCS = Path(__file__).parents[3] / "docs"
PUBLISHED: Mapping[type, Path] = {
    Results: _DOCS / "results.schema.json",
    CompiledResults: _DOCS / "compiled.schema.json",
}

FIGURES = (
    *TIMED_FIGURES,
    *itertools.chain(*extensions.load_table("FIGURES").values()),
)
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NOT_EMPTY = {"minItems": 1}
_FRACTION = {"minimum": 0, "maximum": 1}

# What the type of a field does not say, by its name or with that of its class.
_MORE: Mapping[str, Mapping[str, Any]] = {
    "EnvironmentKey.ranks": {"minimum": 2},
    "began": {"format": "date-time"},
    "accuracy": _FRACTION,
    "outcomes": _NOT_EMPTY,
    "times_s": _NOT_EMPTY,
    "samples_s": _NOT_EMPTY,
    "epochs_s": _NOT_EMPTY,
    "figures": {
        "properties": {figure.id: {"type": "number"} for figure in FIGURES if figure.in_documents},
        "additionalProperties": False,
    },
}


def schema(kind: type) -> dict[str, Any]:
    """Return the schema of a document: every key is required, and no other is accepted."""
    definitions: dict[str, Any] = {}
    _schema_of(kind, "", definitions)
    definition = definitions.pop(kind.__name__)
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **definition, "$defs": dict(sorted(definitions.items()))}


def text(kind: type = Results) -> str:
    return _laid_out(schema(kind)) + "\n"


def _schema_of(kind: Any, name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return {**_schema_of(arguments[0], name, definitions), **_limits(arguments[1])}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema_of(arguments[0], name, definitions), {"type": "null"}]}
    if origin is tuple:
        length = len(arguments) if arguments[-1] is not Ellipsis else None
        of_pair = {} if length is None else {"minItems": length, "maxItems": length}
        return {"type": "array", "items": _schema_of(arguments[0], name, definitions), **of_pair}
    if origin is not None and issubclass(origin, Mapping):
        items = _schema_of(arguments[1], name, definitions)
        return {"type": "object", "additionalProperties": items}
    if hasattr(kind, "parse"):
        return {"type": "string"}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            definitions[kind.__name__] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    return {"type": _PLAIN[kind]}


def _limits(check: object) -> dict[str, Any]:
    if check is check_not_empty:
        return {"minItems": 1}
    if not isinstance(check, RangeCheck):
        return {}
    is_whole = isinstance(check.least, int)
    return {"minimum": check.least} if is_whole else {"exclusiveMinimum": 0}


def _object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    properties = {}
    for field in dataclasses.fields(kind):
        is_extra = field.name == "extra"
        rule = (
            _extra(definitions)
            if is_extra
            else _schema_of(hints[field.name], field.name, definitions)
        )
        more = _MORE.get(f"{kind.__name__}.{field.name}", _MORE.get(field.name, {}))
        rule = {"const": field.default} if field.name in ("document", "version") else rule
        (rule["anyOf"][0] if "anyOf" in rule else rule).update(more)
        properties[field.name] = rule
    return {
        "description": " ".join(inspect.cleandoc(kind.__doc__).split()),
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _extra(definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the values of extensions; unknown values are accepted."""
    properties = {
        name: _schema_of(kind, name, definitions)
        for name, kind in extensions.load_table("VALUES").items()
    }
    return {"type": "object", "properties": properties}


def _laid_out(value: Any, indent: str = "") -> str:
    """Write JSON with an object in one line where it fits."""
    line = json.dumps(value)
    if len(indent + line) <= 100 or not isinstance(value, dict):
        return line
    inner = f"{indent}  "
    return (
        "{\n"
        + ",\n".join(
            f"{inner}{json.dumps(key)}: {_laid_out(child, inner)}" for key, child in value.items()
        )
        + f"\n{indent}}}"
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description="Write the published schemas again.").parse_args()
    for document, path in PUBLISHED.items():
        path.write_text(text(document), encoding="utf-8")
