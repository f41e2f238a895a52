"""The document that `--results` writes, read back: what charts need of it, checked.

Every schema from 1 on has that; what later schemas added is None for the earlier ones. Reads no
file, and keeps no sample.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import Any

from busbw import metrics
from busbw.collectives import COLLECTIVES
from busbw.model import Case, Ceiling, Outcome, Protocol, StoredCase, check_case

from .results import SCHEMA

# More than any memory moves in a second.
_MOST = 1e18


class DocumentError(ValueError):
    """What is wrong with a document, where, and what is accepted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One case of a session; rates are busbw in GB/s, None where there is none.

    `flagged` is the ratio of times that would have been flagged with 95 % probability, and `limit`
    the one that makes a suspicion.
    """

    case: Case
    outcome: Outcome
    measured: float | None
    baseline: float | None
    limit: float | None
    flagged: float | None
    ceiling: Ceiling | None
    published: float | None
    published_oom: bool
    published_source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What a document says of its session; "" or None where its schema did not have that."""

    name: str
    schema: int
    busbw: str
    began: datetime | None
    host: str
    commit: str
    device_kind: str
    ranks: int
    hosts: int
    processes: int
    versions: Mapping[str, Mapping[str, str]]
    cells: tuple[Cell, ...]

    def version(self, framework: str) -> str:
        """The framework with its version, such as ``jax 0.10.2``."""
        found = self.versions.get(framework, {}).get(framework, "")
        return f"{framework} {found}" if found else ""


def read_results(text: str | bytes, name: str) -> Session:
    """The session in a document; `name` is the file's, for messages. Raises DocumentError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{name}: no JSON: {error}") from error
    try:
        return _session(_Place("", document), name)
    except DocumentError as error:
        raise DocumentError(f"{name}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Place:
    """A value and where in the document it is."""

    at: str
    value: Any

    def error(self, wanted: str) -> DocumentError:
        got = "nothing" if self.value is None else f"{self.value!r:.60}"
        return DocumentError(f"{self.at or 'document'}: expected {wanted}, got {got}")

    def get(self, key: str) -> _Place:
        """The value at a key, None if there is none."""
        if not isinstance(self.value, dict):
            raise self.error("an object")
        return _Place(f"{self.at}.{key}" if self.at else key, self.value.get(key))

    def items(self) -> list[_Place]:
        if not isinstance(self.value, list):
            raise self.error("a list")
        return [_Place(f"{self.at}[{n}]", one) for n, one in enumerate(self.value)]

    def text(self, default: str | None = None) -> str:
        if self.value is None and default is not None:
            return default
        if not isinstance(self.value, str):
            raise self.error("text")
        return self.value

    def whole(self, least: int, most: float = math.inf) -> int:
        is_whole = isinstance(self.value, int) and not isinstance(self.value, bool)
        if not is_whole or not least <= self.value <= most:
            to = "on" if most == math.inf else f"to {most}"
            raise self.error(f"a whole number from {least} {to}")
        return int(self.value)

    def rate(self) -> float:
        """A number above 0 that is no more than any memory moves."""
        is_number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not is_number or not 0 < self.value <= _MOST:
            raise self.error("a number above 0")
        return float(self.value)

    def maybe(self, read: Callable[[_Place], float]) -> float | None:
        return None if self.value is None else read(self)


def _session(document: _Place, name: str) -> Session:
    schema = document.get("schema").whole(1, SCHEMA)
    environment = document.get("environment")
    key = environment.get("key")
    began = document.get("began")
    versions = environment.get("versions")
    return Session(
        name=name,
        schema=schema,
        busbw=document.get("busbw").text(""),
        began=_moment(began),
        host=environment.get("host").text(""),
        commit=environment.get("commit").text(""),
        device_kind=key.get("device_kind").text(),
        ranks=key.get("ranks").whole(2),
        hosts=key.get("hosts").whole(1),
        processes=key.get("processes").whole(1),
        versions={framework: _versions(versions.get(framework)) for framework in _keys(versions)},
        cells=tuple(
            _cell(one) for one in document.get("cases").items() if one.get("case").value is not None
        ),
    )


def _moment(place: _Place) -> datetime | None:
    if place.value is None:
        return None
    text, wanted = place.text(), "a moment such as 2026-01-31T03:00:00+00:00"
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise place.error(wanted) from error
    if found.tzinfo is None:
        raise place.error(wanted)
    return found.astimezone(timezone.utc)


def _keys(place: _Place) -> list[str]:
    if not isinstance(place.value, dict):
        raise place.error("an object")
    return list(place.value)


def _versions(place: _Place) -> Mapping[str, str]:
    return {package: place.get(package).text() for package in _keys(place)}


def _cell(row: _Place) -> Cell:
    case = _case(row.get("case"))
    published = row.get("published")
    algbw = None
    if published.value is not None:
        algbw = published.get("algbw_gb_per_s").maybe(_Place.rate)
    return Cell(
        case=case,
        outcome=_outcome(row.get("outcome")),
        measured=_busbw(row.get("measured")),
        baseline=_busbw(row.get("baseline")),
        limit=row.get("limit").maybe(_Place.rate),
        flagged=row.get("detectable").maybe(_Place.rate),
        ceiling=_ceiling(row.get("ceiling")),
        published=None if algbw is None else algbw * metrics.bus_factor(case),
        published_oom=published.value is not None and published.get("oom").value is True,
        published_source="" if published.value is None else published.get("source").text(),
    )


def _busbw(summary: _Place) -> float | None:
    return None if summary.value is None else summary.get("busbw_gb_per_s").rate()


def _outcome(place: _Place) -> Outcome:
    known = {one.value: one for one in Outcome}
    if place.text() not in known:
        raise place.error(f"one of {', '.join(known)}")
    return known[place.text()]


def _ceiling(place: _Place) -> Ceiling | None:
    if place.value is None:
        return None
    return Ceiling(
        bytes_per_s=place.get("bytes_per_s").rate(),
        most_bytes_per_s=place.get("most_bytes_per_s").rate(),
        text=place.get("text").text(),
        sure=place.get("sure").value is True,
        in_switch=place.get("in_switch").value is True,
    )


def _case(place: _Place) -> Case:
    """A valid case; a field that its schema did not have has its default."""
    defaults = {"axes": "", "step": ""}
    values: dict[str, Any] = {}
    for one in fields(StoredCase):
        found = place.get(one.name)
        if one.name in ("payload_bytes", "ranks"):
            values[one.name] = found.whole(1)
        else:
            values[one.name] = found.text(defaults.get(one.name))
    try:
        values["protocol"] = Protocol.parse(values["protocol"])
        case = StoredCase(**values).case
        check_case(case)
        if case.collective not in COLLECTIVES:
            raise ValueError(f"collective: expected one of {', '.join(COLLECTIVES)}")
        if case.group_size < 2:
            raise ValueError("one rank is no collective")
    except ValueError as error:
        raise DocumentError(f"{place.at}: {error}") from error
    return case
