"""Optional features (extensions), each in a folder that can be deleted.

The core imports no extension. The `__init__` of an extension declares its additions in tables,
which are dictionaries. Each entry maps a name to a text ``"module:value"``, where the module is a
file of the extension, or to the name of a value in the `__init__`. A module is imported only when
its value is needed. The tables are

- HOOKS: functions that the core calls by their names. `hosts_of` returns the hosts of a session.
  `check_host` checks this host before devices are looked for. `build_stack` and `lock_stack` build
  and lock the reference stack of a framework. `session_findings` returns the SessionVerdict of a
  MeasuredSession, perhaps with one more outcome or with more text. `tables` returns tables to show
  below the tables of a session, and `notes` returns lines for the end of a session.
- COMMANDS: modules of commands, by the name of the command.
- OPTIONS: options of sessions, by their names.
- MODES: functions of the Options that return a Mode (`busbw.session.run`) or None, by the name of
  the fixture that the tests of the mode read.
- OBSERVERS: functions of a MeasuredSession and an Executor that return an Observer
  (`busbw.session.measure`) or None, by the name of the extra value that the observer gives a
  session.
- FINDINGS: functions of a MeasuredSession, a CaseSpec and the verdict of the case, which return a
  Finding (`busbw.judge.decision`). A Finding may give the verdict extra values.
- VALUES: the types of extra values of sessions, verdicts, launches, baselines and lines of the
  history, by the name of the value. Values of the same name have the same type.
- COLUMNS: figures (columns, `busbw.report.figures`) that follow the figures of times in tables, by
  the name of an extra value of the verdict.
- FIGURES: figures that replace the figures of times, by the name of an extra value of the verdict.
- VIEWS: functions that return an OutputFileKind (`busbw.session.record`), by the name of the
  option that requests the file.
- RESULTS: classes of documents of results (SessionDocument in `busbw.report.results`) of other
  kinds, by the value of ``document`` in the file.
- NEEDS: the names of other extensions, not a table. If one of these extensions is missing, nothing
  of this extension is used.
- WORKER_SERVICES: functions that make the state of a worker, by the name of the service
  (`busbw.worker.serve`).
- WORKER_OPERATIONS: functions that answer requests in a worker, by the name of the request.
- FIRST_CALLS: classes of inputs for the first call of a program (`busbw.worker.backends.values`),
  by the name of the extra value of the launch that is read from the result.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from busbw import wire


def load_declared_functions(name: str, table: str = "HOOKS") -> list[Callable[..., Any]]:
    """Import and return the functions that extensions declare with the key `name`.

    `table` names the tables that are searched, such as ``HOOKS``. The functions are in the
    alphabetical order of their extensions. The list is empty if no extension declares the name.
    """
    return [pkgutil.resolve_name(path) for key, path in _declarations(table) if key == name]


def load_table(table: str, name: str = "") -> dict[str, Any]:
    """Import and return the values that all extensions declare in a kind of table, by name.

    `table` is the name of the table in each extension, such as ``COMMANDS``. If `name` is not
    empty, only the value of this name is imported and returned.
    """
    paths = {key: path for key, path in _declarations(table) if name in ("", key)}
    return {key: pkgutil.resolve_name(path) for key, path in paths.items()}


def with_declared_types(values: Mapping[str, object], location: str) -> Mapping[str, object]:
    """Return extra values, converted from parsed JSON to the types that extensions declare.

    `values` maps the names of extra values to parsed JSON. The tables VALUES of extensions declare
    the types. A value whose type no installed extension declares stays parsed JSON. Raises
    WireError if a value does not have the declared type. The message begins with `location`, the
    place of the values in their document.
    """
    return {
        name: wire.from_json(_type_of_extra_value(name), value, f"{location}.{name}")
        for name, value in values.items()
    }


@functools.cache
def _type_of_extra_value(name: str) -> Any:
    """Return the type that a table VALUES declares for an extra value; else the type `object`."""
    return load_table("VALUES", name).get(name, object)


def names_in_extension_tables(table: str) -> list[str]:
    """Return the names that all extensions declare in a kind of table, without importing values.

    `table` is the name of the table in each extension, such as ``COMMANDS``.
    """
    return [key for key, _ in _declarations(table)]


def _declarations(table: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the path of each value that extensions declare in a kind of table.

    `table` is the name of the table in each extension, such as ``COMMANDS``. A path is a text such
    as ``busbw.extensions.soak.mode:value``. An extension is left out if its NEEDS names an
    extension that is missing.
    """
    present = {extension.name for extension in pkgutil.iter_modules(__path__)}
    for extension in sorted(present):
        module = import_module(f"{__name__}.{extension}")
        if present.issuperset(vars(module).get("NEEDS", ())):
            declared = vars(module).get(table, {})
            yield from ((key, f"{module.__name__}.{path}") for key, path in declared.items())
