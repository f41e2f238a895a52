"""Optional features, each in a folder that can be deleted.

The core imports none of them. The `__init__` of an extension declares what it adds in tables, from
a name to ``"module:value"``; a module is imported only when its value is needed:

- HOOKS: functions that the core calls by name: `build_references` and `lock_references` for
  stacks, `check_host` before devices are looked for, `hosts_of` for several hosts, `tables` below
  the tables of a session, `notes` of a Judged at its end, `session_findings`, which return the
  SessionVerdict of a Judged with an outcome that holds, too, or with more text.
- COMMANDS: modules of commands, by the name of the command.
- OPTIONS: options of sessions, by their name.
- MODES: functions that return a mode of sessions, by the fixture that its tests read.
- OBSERVERS: functions of a Measured and an Executor that return an Observer
  (`busbw.session.measure`), by the name of the extra value of the session that it has.
- FINDINGS: functions of a Measured, a Spec and its verdict that return a Finding
  (`busbw.judge.findings`), which may have extra values of the verdict.
- VALUES: the types of extra values of sessions, verdicts, launches, baselines and lines of the
  history, by the name of the value. Values of the same name have the same type.
- COLUMNS: figures (`busbw.report.figures`) that follow the figures of times, by the name of an
  extra value of the verdict.
- FIGURES: figures that replace the figures of times, by the name of an extra value of the verdict.
- VIEWS: functions that return a file which shows a session, by the name of its option.
- RESULTS: functions that read results of another kind, by what the document says that it is.
- NEEDS: names of other extensions, without which nothing of this extension is there.
- WORKER_SERVICES and WORKER_OPERATIONS: what workers open and do, see `busbw.worker.serve`.
- FIRST_CALLS: inputs for the first call of a program (`busbw.worker.backends.values`), by the name
  of the extra value of the launch that is read from the result.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from busbw import wire


def hooks(name: str, table: str = "HOOKS") -> list[Callable[..., Any]]:
    """Load the functions that extensions declare under `name`."""
    return [pkgutil.resolve_name(place) for key, place in _entries(table) if key == name]


def table(table: str, name: str = "") -> dict[str, Any]:
    """Load all values of a table by their names, or that of one name alone."""
    places = {key: place for key, place in _entries(table) if name in ("", key)}
    return {key: pkgutil.resolve_name(place) for key, place in places.items()}


def typed(values: Mapping[str, object], location: str) -> Mapping[str, object]:
    """Return extra values in the types of the tables VALUES. Raises WireError with `location`.

    The value of an extension that is not installed is kept as plain data.
    """
    return {
        name: wire.from_json(_kind(name), value, f"{location}.{name}")
        for name, value in values.items()
    }


@functools.cache
def _kind(name: str) -> Any:
    return table("VALUES", name).get(name, object)


def names(table: str) -> list[str]:
    """Return the names in a table, without loading its values."""
    return [key for key, _ in _entries(table)]


def _entries(table: str) -> Iterator[tuple[str, str]]:
    present = {extension.name for extension in pkgutil.iter_modules(__path__)}
    for extension in sorted(present):
        module = import_module(f"{__name__}.{extension}")
        if present.issuperset(vars(module).get("NEEDS", ())):
            declared = vars(module).get(table, {})
            yield from ((key, f"{module.__name__}.{place}") for key, place in declared.items())
