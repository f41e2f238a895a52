"""Fields of a document, each checked with its place: objects, lists, values, moments, numbers.

A value of ours is read by `wire`, without what a document says besides of it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, TypeVar

from busbw import wire

# More than any memory moves in a second, and no more than any session takes in seconds.
_MOST = 1e18

T = TypeVar("T")


class DocumentError(ValueError):
    """What is wrong with a document, where, and what is accepted."""


def get(document: Mapping[str, Any], key: str) -> Any:
    """What a document has at a key. Raises DocumentError."""
    if key not in document:
        raise DocumentError(f"{key}: missing")
    return document[key]


def object_at(found: object, at: str) -> Mapping[str, Any]:
    """An object. Raises DocumentError."""
    if not isinstance(found, dict):
        raise DocumentError(f"{at}: expected an object, got {found!r:.60}")
    return found


def list_at(document: Mapping[str, Any], key: str) -> list[Any]:
    """The list that a document has at a key. Raises DocumentError."""
    found = get(document, key)
    if not isinstance(found, list):
        raise DocumentError(f"{key}: expected a list, got {found!r:.60}")
    return found


def read(kind: type[T], found: object, at: str) -> T:
    """A value of `kind`, without what the document says besides. Raises WireError."""
    return wire.from_json(kind, _known(kind, found), at)


def _known(kind: Any, found: Any) -> Any:
    """What `kind` has of a document."""
    arguments = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _known(next(one for one in arguments if one is not type(None)), found)
    if origin is tuple and isinstance(found, list):
        return [_known(arguments[0], item) for item in found]
    if not dataclasses.is_dataclass(kind) or not isinstance(found, dict):
        return found
    if hasattr(kind, "of_kind"):
        return found
    hints = typing.get_type_hints(kind)
    return {key: _known(hints[key], item) for key, item in found.items() if key in hints}


def moment_at(found: object) -> datetime:
    """When a session began, UTC. Raises DocumentError."""
    try:
        moment = datetime.fromisoformat(read(str, found, "began"))
        if moment.tzinfo is None:
            raise ValueError("without a time zone")
        return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError) as error:
        raise DocumentError(
            f"began: expected a moment such as 2026-01-31T03:00:00+00:00, got {found!r:.60}"
        ) from error


def check_number(found: float | None, at: str) -> None:
    """Raise DocumentError for a number that no time and no rate is."""
    if found is not None and not 1 / _MOST <= found <= _MOST:
        raise DocumentError(f"{at}: expected a number above 0, got {found!r:.60}")
