"""Values to JSON and back: the worker's channel, the baseline files and the results use it.

Standard library only, Python 3.11: a foreign interpreter runs this file. Reading is strict: an
unknown key, a missing key or a wrong type raises WireError with the path in the document. Text that
is read moves no terminal on which it is shown.

Values are dataclasses (one with a `parse` is written as its text), enums, mappings, tuples and
plain values. An ``object`` is read as it is. A field names what it accepts as
``Annotated[int, check]``, and a class checks several fields in its `validate`: both raise
ValueError, and that of `validate` begins with a field.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import json
import math
import re
import reprlib
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

# Of every kind of document that is read again.
VERSION = 1

_MOST_WHOLE = 2**63

# Half a surrogate pair, which JSON can hold, cannot be encoded.
_HALF = re.compile(r"[\ud800-\udfff]")
# All control characters but tabs and ends of lines, separators of lines, characters that mark or
# override the direction of text, and halves.
_MOVING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
    rf"|{_HALF.pattern}"
)
# What GitHub reads as a command in the log of a workflow.
_WORKFLOW_COMMAND = re.compile(r"^([^\S\n]*):(?=:)|#(?=#\[)", re.MULTILINE)


def printable(text: str) -> str:
    r"""Escape what moves a terminal or cannot be encoded, such as ``\x1b``, in `text`."""
    return text if text.isprintable() else _MOVING.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(text: str) -> str:
    r"""Return `text` as `printable` does, with ``\t`` and ``\n`` for tabs and ends of lines."""
    return printable(text).replace("\t", r"\t").replace("\n", r"\n")


def without_commands(text: str) -> str:
    """Return `text` with a space inside whatever GitHub would run as a workflow command.

    Such as ``: :error::`` for ``::error::`` at the beginning of a line, and ``# #[error]``.
    """
    return _WORKFLOW_COMMAND.sub(lambda match: f"{match[0]} ", text)


_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_CONFLICT = re.compile(rb"^(?:(?:<{7}|>{7}|[|]{7})(?: .*)?|={7})\r?$", re.MULTILINE)


def left_by_git(content: bytes) -> str:
    """Say what Git left in `content` instead of the file that was meant, after its line.

    Such as ``3:1: a Git conflict marker, '<<<<<<< HEAD'; ...``; empty for nothing.
    """
    if content.startswith(_LFS_POINTER):
        return "1:1: a Git LFS pointer, not the file itself; fetch the file with git lfs pull"
    match = _CONFLICT.search(content) if b"<<<<<<<" in content or b">>>>>>>" in content else None
    if match is None:
        return ""
    line, shown = content.count(b"\n", 0, match.start()) + 1, match[0].decode(errors="replace")
    return f"{line}:1: a Git conflict marker, {_shown(shown.strip())}; resolve the conflict"


class WireError(ValueError):
    """A document that is not what was expected; the message says where and what was expected.

    The message is one line that can be written anywhere: control characters are escaped.
    """

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


def parsed(content: bytes | str) -> Any:
    """Return the JSON document that `content` holds, in UTF-8.

    Raises WireError, with line and column where they are known, for anything else, for a repeated
    key, for lists and objects that are nested too deeply, and for whole numbers of more digits than
    Python reads.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        return json.loads(text, object_pairs_hook=_no_repeats)
    except UnicodeDecodeError as error:
        raise WireError(f"byte {error.start}: not UTF-8") from error
    except json.JSONDecodeError as error:
        where = f"{error.lineno}:{error.colno}: not JSON: {error.msg}"
        raise WireError(left_by_git(text.encode(errors="replace")) or where) from error
    except RecursionError as error:
        raise WireError("lists and objects are nested too deeply") from error
    except WireError:
        raise
    except ValueError as error:
        raise WireError("a whole number of more than 4300 digits") from error


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        counts = collections.Counter(key for key, _ in pairs)
        repeated = next(key for key, count in counts.items() if count > 1)
        raise WireError(f"the key {_shown(repeated)} occurs twice in one object")
    return document


def check_document(document: Any, name: str, remedy: str) -> None:
    """Raise WireError unless `document` says that it is a `name`, such as ``busbw results``.

    The message ends with the `remedy`.
    """
    if not isinstance(document, dict):
        raise WireError(f"document: expected an object, got {_shown(document)}")
    kind, version = document.get("document"), document.get("version")
    if kind != name or type(version) is not int or version != VERSION:
        text = f"this says {_shown(kind)} of version {_shown(version)}"
        raise WireError(f"{text}; expected {name!r} of version {VERSION}: {remedy}")


def to_json(value: Any, *, is_brief: bool = False) -> Any:
    """Return a frozen value as dicts, lists, strings, numbers and None; only types are lost.

    With `is_brief` fields that have their default are left out.
    """
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(type(value), "parse"):
        return str(value)
    if dataclasses.is_dataclass(value):
        fields = {field: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {
            field.name: to_json(part, is_brief=is_brief)
            for field, part in fields.items()
            if not is_brief or part != _default(field)
        }
    if isinstance(value, Mapping):
        return {str(key): to_json(part, is_brief=is_brief) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(part, is_brief=is_brief) for part in value]
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    """Return the default of a field; no value is equal to that of a field without a default."""
    make = field.default_factory
    return field.default if make is dataclasses.MISSING else make()


def from_json(kind: type[T], document: Any, location: str = "") -> T:
    """Return the value of type `kind` that `document` describes.

    Raises WireError with the path, such as ``entries[3].times_us``, and what was expected.
    """
    return typing.cast(T, _reader(typing.cast(Any, kind))(document, location or kind.__name__))


# What makes a value of a document; the other argument is where in the whole that is.
_Reader = Callable[[Any, str], Any]


@functools.cache
def _reader(kind: Any) -> _Reader:
    """Return the reader of a `kind`, made once: histories hold many thousands of a few kinds."""
    reader = _reader_of(kind)
    return functools.partial(_read_valid, kind, reader) if hasattr(kind, "validate") else reader


def _reader_of(kind: Any) -> _Reader:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        inner, *checks = typing.get_args(kind)
        return functools.partial(_read_limited, _reader(inner), tuple(checks))
    if origin is typing.Union or origin is types.UnionType:
        (inner,) = (arg for arg in typing.get_args(kind) if arg is not type(None))
        return functools.partial(_read_optional, _reader(inner))
    if origin is tuple:
        return functools.partial(_read_tuple, typing.get_args(kind))
    if origin is not None and issubclass(origin, Mapping):
        of_key, of_item = map(_reader, typing.get_args(kind))
        return functools.partial(_read_mapping, of_key, of_item)
    if hasattr(kind, "parse"):
        return functools.partial(_read_text, kind)
    if dataclasses.is_dataclass(kind):
        return functools.partial(_read_dataclass, kind)
    if issubclass(kind, enum.Enum):
        return functools.partial(_read_enum, kind)
    return functools.partial(_read_plain, kind)


def _checked(make: Callable[[Any], Any], value: Any, location: str) -> Any:
    """Return what `make` makes of a value; its ValueError becomes a WireError with `location`.

    The `location` ends with a colon or, before a field, with a dot.
    """
    try:
        return make(value)
    except WireError:
        raise
    except ValueError as error:
        raise WireError(f"{location}{error}") from error


def _read_limited(
    inner: _Reader, checks: tuple[Callable[[Any], None], ...], document: Any, location: str
) -> Any:
    value = inner(document, location)
    for check in checks:
        _checked(check, value, f"{location}: ")
    return value


def _read_optional(inner: _Reader, document: Any, location: str) -> Any:
    return None if document is None else inner(document, location)


def _read_tuple(args: tuple[Any, ...], document: Any, location: str) -> tuple[Any, ...]:
    if not isinstance(document, list):
        raise WireError(f"{location}: expected a list, got {_shown(document)}")
    if args[-1] is not Ellipsis and len(document) != len(args):
        raise WireError(f"{location}: expected a list of {len(args)}, got {len(document)} items")
    kinds = [args[0]] * len(document) if args[-1] is Ellipsis else list(args)
    return tuple(
        [_reader(k)(item, f"{location}[{i}]") for i, (k, item) in enumerate(zip(kinds, document))]
    )


def _read_mapping(of_key: _Reader, inner: _Reader, document: Any, location: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise WireError(f"{location}: expected an object, got {_shown(document)}")
    mapping = {}
    for key, item in document.items():
        key_location = f"{location}.{_in_part(key)}"
        mapping[of_key(key, key_location)] = inner(item, key_location)
    return mapping


def _read_text(kind: Any, document: Any, location: str) -> Any:
    """Read a value that is written as one text."""
    return _checked(kind.parse, _read_plain(str, document, location), f"{location}: ")


def _read_valid(kind: Any, inner: _Reader, document: Any, location: str) -> Any:
    value = inner(document, location)
    _checked(kind.validate, value, f"{location}.")
    return value


def _read_dataclass(kind: Any, document: Any, location: str) -> Any:
    if not isinstance(document, dict):
        raise WireError(f"{location}: expected an object, got {_shown(document)}")
    readers, required = _fields_of(kind)
    if not document.keys() <= readers.keys():
        unknown = min(set(document) - set(readers))
        raise WireError(
            f"{location}.{_in_part(unknown)}: unknown key; accepted are {', '.join(readers)}"
        )
    if not required <= document.keys():
        missing = next(name for name in readers if name in required and name not in document)
        raise WireError(f"{location}.{missing}: missing")
    return kind(**{key: readers[key](item, f"{location}.{key}") for key, item in document.items()})


@functools.cache
def _fields_of(kind: Any) -> tuple[Mapping[str, _Reader], frozenset[str]]:
    """Return the reader of each field, and the names of fields without a default."""
    hints = typing.get_type_hints(kind, include_extras=True)
    fields, missing = dataclasses.fields(kind), dataclasses.MISSING
    required = frozenset(f.name for f in fields if missing is f.default is f.default_factory)
    return {field.name: _reader(hints[field.name]) for field in fields}, required


def _read_enum(kind: Any, document: Any, location: str) -> Any:
    try:
        return kind(document)
    except ValueError:
        names = ", ".join(member.value for member in kind)
        raise WireError(f"{location}: expected one of {names}, got {_shown(document)}") from None


_PLAIN = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "null",
}


def _read_plain(kind: Any, document: Any, location: str) -> Any:
    if kind is float and type(document) is int and abs(document) <= sys.float_info.max:
        document = float(document)
    if type(document) is not kind is not object:
        raise WireError(f"{location}: expected {_PLAIN[kind]}, got {_shown(document)}")
    if kind is float and not math.isfinite(document):
        raise WireError(f"{location}: expected a finite number, got {document}")
    if kind is int and not -_MOST_WHOLE <= document < _MOST_WHOLE:
        raise WireError(f"{location}: expected a whole number of 64 bits, got {_shown(document)}")
    if kind is str and not document.isascii() and _HALF.search(document):
        raise WireError(f"{location}: expected text, got {_shown(document)}")
    return printable(document) if kind is str else document


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200


def _shown(document: Any) -> str:
    return _in_part(_SHORT.repr(document))


def _in_part(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
