"""Conversion of values to JSON and back, for requests to workers, baseline files and results.

Only the standard library of Python 3.11 is imported, because workers run this file under other
interpreters. Reading is strict: an unknown key, a missing key or a wrong type raises WireError with
the path in the document. Control characters in strings are escaped, so that a string cannot control
the terminal on which it is shown.

Values are dataclasses, enums, mappings, tuples, strings, numbers, booleans and None. A class with a
`parse` method is written as the text of the value. A field of type ``object`` is read unchanged. A
field may have a check, as in ``Annotated[int, check]``, which raises ValueError. A class may check
several fields in its `validate` method, whose ValueError begins with the name of a field.
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

# The version of every kind of document that is read again.
DOCUMENT_VERSION = 1

_INTEGER_BOUND = 2**63

# JSON can hold half of a surrogate pair, which cannot be encoded as UTF-8.
_SURROGATE_PATTERN = re.compile(r"[\ud800-\udfff]")
# These change what a terminal shows, or cannot be encoded or be in XML: control characters other
# than tabs and ends of lines, separators of lines, marks of the direction of text, noncharacters,
# and halves of surrogate pairs.
_UNPRINTABLE_PATTERN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]"
    rf"|{_SURROGATE_PATTERN.pattern}"
)
# GitHub reads such text in the log of a workflow as a command.
_WORKFLOW_COMMAND_PATTERN = re.compile(r"^([^\S\n]*):(?=:)|#(?=#\[)", re.MULTILINE)


def escape_unprintable(text: str) -> str:
    r"""Return `text` with an escape such as ``\x1b`` for each character that is not safe to show.

    Characters that control a terminal, or that UTF-8 or XML cannot contain, are not safe.
    """
    return (
        text
        if text.isprintable()
        else _UNPRINTABLE_PATTERN.sub(lambda match: ascii(match[0])[1:-1], text)
    )


def escape_workflow_commands(text: str) -> str:
    """Return `text` with a space inside each part that GitHub would run as a workflow command.

    For example, ``::error::`` at the beginning of a line becomes ``: :error::``, and ``##[error]``
    becomes ``# #[error]``.
    """
    return _WORKFLOW_COMMAND_PATTERN.sub(lambda match: f"{match[0]} ", text)


_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_CONFLICT_PATTERN = re.compile(rb"^(?:(?:<{7}|>{7}|[|]{7})(?: .*)?|={7})\r?$", re.MULTILINE)


def git_leftover_text(content: bytes) -> str:
    """Return the position and kind of an LFS pointer or conflict marker that Git left in `content`.

    The text begins with line and column, such as ``3:1: a Git conflict marker, '<<<<<<< HEAD'``.
    The text is empty if `content` has no such pointer or marker.
    """
    if content.startswith(_LFS_POINTER):
        return "1:1: a Git LFS pointer, not the file itself; fetch the file with git lfs pull"
    match = (
        _CONFLICT_PATTERN.search(content)
        if b"<<<<<<<" in content or b">>>>>>>" in content
        else None
    )
    if match is None:
        return ""
    line = content.count(b"\n", 0, match.start()) + 1
    shown = match[0].decode(errors="replace")
    return f"{line}:1: a Git conflict marker, {_short_repr(shown.strip())}; resolve the conflict"


class WireError(ValueError):
    """The error of a document that is not valid.

    The message names the place of the wrong value in the document, and the expected value. The
    message is a single line, in which control characters are escaped.
    """

    def __init__(self, text: str) -> None:
        super().__init__(escape_unprintable(text).replace("\t", r"\t").replace("\n", r"\n"))


def parse_json(content: bytes | str) -> Any:
    """Return the document in `content`, which must be JSON in UTF-8.

    Raises:
        WireError: `content` is not JSON, a key occurs twice in an object, lists and objects are
            nested too deeply, or a whole number has more digits than Python reads. The message
            contains line and column if they are known.

    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        return json.loads(text, object_pairs_hook=_dict_with_unique_keys)
    except UnicodeDecodeError as error:
        raise WireError(f"byte {error.start}: not UTF-8") from error
    except json.JSONDecodeError as error:
        where = f"{error.lineno}:{error.colno}: not JSON: {error.msg}"
        raise WireError(git_leftover_text(text.encode(errors="replace")) or where) from error
    except RecursionError as error:
        raise WireError("lists and objects are nested too deeply") from error
    except WireError:
        raise
    except ValueError as error:
        raise WireError("a whole number of more than 4300 digits") from error


def _dict_with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dictionary of the keys and values `pairs`. Raise WireError if a key occurs twice."""
    document = dict(pairs)
    if len(document) != len(pairs):
        counts = collections.Counter(key for key, _ in pairs)
        repeated = next(key for key, count in counts.items() if count > 1)
        raise WireError(f"the key {_short_repr(repeated)} occurs twice in one object")
    return document


def check_document(document: Any, name: str, remedy: str) -> None:
    """Raise WireError unless `document` has the kind `name` and the present version.

    A kind of document is, for example, ``busbw results``. The message ends with `remedy`, which
    says how the user can get a valid document.
    """
    _read_plain_value(dict, document, "document")
    kind, version = document.get("document"), document.get("version")
    if kind != name or type(version) is not int or version != DOCUMENT_VERSION:
        text = f"this says {_short_repr(kind)} of version {_short_repr(version)}"
        raise WireError(f"{text}; expected {name!r} of version {DOCUMENT_VERSION}: {remedy}")


def to_json(value: Any, *, is_brief: bool = False) -> Any:
    """Return `value` as dicts, lists, strings, numbers, booleans and None, which JSON can hold.

    Given the type of `value`, `from_json` makes an equal value from the result. With `is_brief`,
    fields of dataclasses that have their default are left out.
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
            if not is_brief or part != _field_default(field)
        }
    if isinstance(value, Mapping):
        return {str(key): to_json(part, is_brief=is_brief) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(part, is_brief=is_brief) for part in value]
    return value


def _field_default(field: dataclasses.Field[Any]) -> Any:
    """Return the default of a field; `dataclasses.MISSING` if the field has no default."""
    make = field.default_factory
    return field.default if make is dataclasses.MISSING else make()


def from_json(kind: type[T], document: Any, location: str = "") -> T:
    """Return the value of type `kind` that a parsed JSON `document` describes.

    `location` names the document in messages; if empty, the name of `kind` does. Raises WireError
    with the path of the wrong value, such as ``entries[3].times_us``, and the expected value.
    """
    return typing.cast(
        T, _reader_of_type(typing.cast(Any, kind))(document, location or kind.__name__)
    )


# A function that makes a value from a part of a document, given the part and its path.
_Reader = Callable[[Any, str], Any]


@functools.cache
def _reader_of_type(kind: Any) -> _Reader:
    """Return the function that reads a value of type `kind`, a `_read_...` function of this file.

    The function takes a part of a parsed JSON document and its location. Results are cached,
    because a history has many thousands of values of a few types.
    """
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        inner, *checks = typing.get_args(kind)
        return functools.partial(_read_checked, _reader_of_type(inner), tuple(checks))
    if origin is typing.Union or origin is types.UnionType:
        (inner,) = (arg for arg in typing.get_args(kind) if arg is not type(None))
        return functools.partial(_read_optional, _reader_of_type(inner))
    if origin is tuple:
        return functools.partial(_read_tuple, typing.get_args(kind))
    if origin is not None and issubclass(origin, Mapping):
        of_key, of_item = map(_reader_of_type, typing.get_args(kind))
        return functools.partial(_read_mapping, of_key, of_item)
    if hasattr(kind, "parse"):
        return functools.partial(_read_text, kind)
    if dataclasses.is_dataclass(kind):
        return functools.partial(_read_dataclass, kind)
    if issubclass(kind, enum.Enum):
        return functools.partial(_read_enum, kind)
    return functools.partial(_read_plain_value, kind)


def _call_and_locate_error(make: Callable[[Any], Any], value: Any, location: str) -> Any:
    """Return `make(value)`; turn a ValueError of `make` into a WireError.

    The message of the WireError is `location` and the message of the ValueError. So `location` ends
    with a colon and a space or, if that message begins with the name of a field, with a dot.
    """
    try:
        return make(value)
    except WireError:
        raise
    except ValueError as error:
        raise WireError(f"{location}{error}") from error


def _read_checked(
    read_value: _Reader, checks: tuple[Callable[[Any], None], ...], document: Any, location: str
) -> Any:
    value = read_value(document, location)
    for check in checks:
        _call_and_locate_error(check, value, f"{location}: ")
    return value


def _read_optional(read_value: _Reader, document: Any, location: str) -> Any:
    return None if document is None else read_value(document, location)


def _read_tuple(args: tuple[Any, ...], document: Any, location: str) -> tuple[Any, ...]:
    _read_plain_value(list, document, location)
    if args[-1] is not Ellipsis and len(document) != len(args):
        raise WireError(f"{location}: expected a list of {len(args)}, got {len(document)} items")
    kinds = [args[0]] * len(document) if args[-1] is Ellipsis else list(args)
    return tuple(
        [
            _reader_of_type(k)(item, f"{location}[{i}]")
            for i, (k, item) in enumerate(zip(kinds, document))
        ]
    )


def _read_mapping(
    read_key: _Reader, read_value: _Reader, document: Any, location: str
) -> dict[str, Any]:
    mapping = {}
    for key, item in _read_plain_value(dict, document, location).items():
        key_location = f"{location}.{_first_characters(key)}"
        mapping[read_key(key, key_location)] = read_value(item, key_location)
    return mapping


def _read_text(kind: Any, document: Any, location: str) -> Any:
    """Return the value of the type `kind` that its method `parse` makes of the text `document`.

    `location` is the place of the text in the whole document, for messages. Raises WireError if
    `document` is not a text, or if `parse` raises ValueError.
    """
    return _call_and_locate_error(
        kind.parse, _read_plain_value(str, document, location), f"{location}: "
    )


def _read_dataclass(kind: Any, document: Any, location: str) -> Any:
    """Return an instance of the dataclass `kind`, checked by the method `validate` if it exists."""
    _read_plain_value(dict, document, location)
    readers, required = _readers_and_required_fields(kind)
    if not document.keys() <= readers.keys():
        unknown = min(set(document) - set(readers))
        raise WireError(
            f"{location}.{_first_characters(unknown)}: unknown key; "
            f"accepted are {', '.join(readers)}"
        )
    if not required <= document.keys():
        missing = next(name for name in readers if name in required and name not in document)
        raise WireError(f"{location}.{missing}: missing")
    value = kind(**{key: readers[key](item, f"{location}.{key}") for key, item in document.items()})
    if hasattr(kind, "validate"):
        _call_and_locate_error(kind.validate, value, f"{location}.")
    return value


@functools.cache
def _readers_and_required_fields(kind: Any) -> tuple[Mapping[str, _Reader], frozenset[str]]:
    """Return the readers of a dataclass's fields, by field, and the fields without a default."""
    hints = typing.get_type_hints(kind, include_extras=True)
    fields, missing = dataclasses.fields(kind), dataclasses.MISSING
    required = frozenset(f.name for f in fields if missing is f.default is f.default_factory)
    return {field.name: _reader_of_type(hints[field.name]) for field in fields}, required


def _read_enum(kind: Any, document: Any, location: str) -> Any:
    try:
        return kind(document)
    except ValueError:
        names = ", ".join(member.value for member in kind)
        raise WireError(
            f"{location}: expected one of {names}, got {_short_repr(document)}"
        ) from None


_PLAIN_NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "null",
    list: "a list",
    dict: "an object",
}


def _read_plain_value(kind: Any, document: Any, location: str) -> Any:
    """Return `document` if its type is `kind`, with the unprintable characters of a text escaped.

    `kind` is a key of `_PLAIN_NAMES`, or ``object`` for any value. If `kind` is ``float``, a whole
    number is accepted, too. `location` is the path of the value in the document, such as
    ``document.plan.seed``. Raises WireError, which begins with `location`, for any other type.
    """
    if kind is float and type(document) is int and abs(document) <= sys.float_info.max:
        document = float(document)
    if type(document) is not kind is not object:
        raise WireError(f"{location}: expected {_PLAIN_NAMES[kind]}, got {_short_repr(document)}")
    if kind is float and not math.isfinite(document):
        raise WireError(f"{location}: expected a finite number, got {document}")
    if kind is int and not -_INTEGER_BOUND <= document < _INTEGER_BOUND:
        raise WireError(
            f"{location}: expected a whole number of 64 bits, got {_short_repr(document)}"
        )
    if kind is str and not document.isascii() and _SURROGATE_PATTERN.search(document):
        raise WireError(f"{location}: expected text, got {_short_repr(document)}")
    return escape_unprintable(document) if kind is str else document


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 200


def _short_repr(document: Any) -> str:
    """Return the repr of `document`, a part of a document, shortened to at most 60 characters."""
    return _first_characters(_REPR.repr(document))


def _first_characters(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
