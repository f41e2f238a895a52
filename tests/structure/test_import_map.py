"""The import map of the design: which room may import which, and where frameworks and pytest live.

The map is read from the sources, imported by nobody: imports inside functions and under
TYPE_CHECKING count, and so do literal names given to `import_module`.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = "busbw"
ROOT = Path(__file__).parents[2]

# Every room, and the rooms that it may import. "" is the package itself: busbw/__init__.py.
_PURE: Mapping[str, set[str]] = {
    "": set(),
    "model": set(),
    "wire": {"model"},
    "storage": set(),
    "collectives": {"model"},
    "frameworks": {"model"},
    "grid": {"model", "collectives", "frameworks"},
    "metrics": {"model", "collectives"},
    "hardware": {"model", "collectives"},
    "stats": {"model"},
    "program": {"model", "collectives"},
    "judge": {"model", "metrics", "hardware", "stats"},
    "baselines": {"model", "wire", "storage"},
    "history": {"model", "wire", "stats", "storage"},
    "report": {"model", "wire", "collectives", "metrics", "hardware", "extensions"},
    "extensions": set(),
    # What extensions send to workers: their files worker*.py.
    "extensions/worker": {"model", "wire", "storage", "collectives", "program", "worker"},
    "extensions/cluster": {"model", "wire", "storage", "driver"},
    "worker": {"model", "wire", "storage", "collectives", "program", "extensions"},
    "driver": {"model", "wire", "storage"},
}
_OURS = set(_PURE) - {"worker", "extensions/worker"}
# Those of the core's packages that the command line and the sessions still import.
_OPTIONAL: set[str] = set()
_FACES = {face: _OURS | _OPTIONAL | {"session"} for face in ("plugin", "commands")}
_DOOR = {"__main__": {"commands"}}
# An extension imports anything in the core but the plugin, and these extensions.
_EXTENSIONS: Mapping[str, set[str]] = {
    "extensions/bisect": {"extensions/stacks"},
    "extensions/compiled": {"extensions/stacks", "extensions/worker"},
    "extensions/estimate": set(),
    "extensions/page": set(),
    "extensions/profiles": {"extensions/page"},
    "extensions/setup": set(),
    "extensions/stacks": set(),
    "extensions/stragglers": set(),
}
ALLOWED = {
    **_PURE,
    "session": _OURS | _OPTIONAL,
    **_FACES,
    **_DOOR,
    **{name: _OURS | {"session", "commands"} | others for name, others in _EXTENSIONS.items()},
}

BACKENDS = "busbw.worker.backends"
# Who may import what is not ours: the foreign package, and the module below which it may be.
ONLY_BELOW: Mapping[str, str | tuple[str, ...]] = {
    "jax": (
        f"{BACKENDS}.jax",
        "busbw.extensions.compiled.worker_jax",
        "busbw.extensions.profiles.recordings",
    ),
    "jaxlib": f"{BACKENDS}.jax",
    "tensorflow": f"{BACKENDS}.tensorflow",
    "numpy": ("busbw.worker", "busbw.stats"),
    "scipy": "busbw.stats",
    "pytest": "busbw.plugin",
    "_pytest": "busbw.plugin",
    "pytest_benchmark": "busbw.plugin",
    "altair": "busbw.extensions.page.drawing",
    "vl_convert": "busbw.extensions.page.drawing",
    "jinja2": "busbw.extensions.page.page",
    "markupsafe": "busbw.extensions.page.page",
    "pynvml": "busbw.worker.operations.counters",
    "libtpu": "busbw.worker.operations.counters",
    "execnet": "busbw.extensions.cluster.transport",
    "distributed": "busbw.extensions.cluster.over_dask",
    "cloudpickle": "busbw.extensions.cluster.over_dask",
    # A package beside ours, which imports it and is never imported by it.
    "bench": "bench",
}

# Handed to foreign interpreters from Python 3.11 on, with nothing of our site-packages.
TRAVELLING = {
    "",
    "model",
    "wire",
    "storage",
    "collectives",
    "program",
    "worker",
    "driver",
    "extensions",
    "extensions/cluster",
    "extensions/worker",
}
OLDEST = (3, 11)
SINCE_OLDEST = {"annotationlib", "compression"}
STANDARD = set(sys.stdlib_module_names) - SINCE_OLDEST


def offences(sources: Mapping[str, str]) -> list[str]:
    """What in `sources` (path such as ``busbw/wire.py`` to text) breaks the map, in order."""
    found = []
    for path, source in sorted(sources.items()):
        room = _room(_module(path))
        if room not in ALLOWED:
            found.append(f"{path}: the room {room!r} is not in the map")
            continue
        try:
            imports = _read(path, source, OLDEST if room in TRAVELLING else None)
        except SyntaxError as error:
            found.append(f"{path}:{error.lineno}: {error.msg}")
            continue
        for line, name in imports:
            reason = _objection(_module(path), room, name)
            if reason:
                found.append(f"{path}:{line}: {name}: {reason}")
    return found


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _room(module: str) -> str:
    """Return the room of a module, of which each extension is one; "" for the package itself."""
    _, *names = module.split(".")
    if names[:1] == ["extensions"] and names[2:] and names[2].startswith("worker"):
        return "extensions/worker"
    return "/".join(names[: 2 if names[:1] == ["extensions"] else 1])


@functools.cache
def _read(path: str, source: str, oldest: tuple[int, int] | None) -> list[tuple[int, str]]:
    """The imports of one file, which most tests leave as it is."""
    return list(_imports(ast.parse(source, path, feature_version=oldest), path))


def _imports(tree: ast.AST, path: str) -> Iterator[tuple[int, str]]:
    """(line, the absolute name) of everything that is imported anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, path)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and _importing(node.func):
            first = node.args[0] if node.args else None
            yield node.lineno, _named(first, path)


def _named(argument: ast.expr | None, path: str) -> str:
    """The name that is written out, or a module of the package's own; "?" for any other."""
    if isinstance(argument, ast.Constant):
        return str(argument.value)
    begin = argument.values[0] if isinstance(argument, ast.JoinedStr) else None
    of_itself = isinstance(begin, ast.FormattedValue) and ast.unparse(begin.value) == "__name__"
    return _module(path) if of_itself else "?"


def _importing(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def _absolute(node: ast.ImportFrom, path: str) -> str:
    if not node.level:
        return node.module or ""
    package = _module(path).split(".")
    above = node.level - (1 if path.endswith("/__init__.py") else 0)
    parts = package[: len(package) - above]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _objection(module: str, room: str, name: str) -> str:
    """Why `module` in `room` may not import `name`; empty if it may."""
    top = name.split(".")[0]
    if name == "?":
        return "an import whose name is not written out cannot be checked"
    if top == PACKAGE:
        return _objection_to_ours(room, name)
    below = ONLY_BELOW.get(top)
    places = (below,) if isinstance(below, str) else below or ()
    if below and not any(f"{module}.".startswith(f"{place}.") for place in places):
        return f"only below {' or '.join(places)}"
    if room in TRAVELLING and not below and top not in STANDARD:
        return f"{room or PACKAGE} has the standard library of Python 3.11 only"
    return ""


def _objection_to_ours(room: str, name: str) -> str:
    wanted = _room(name)
    if wanted in (room, "") or wanted == "__version__":
        return ""
    allowed = ALLOWED[room]
    return "" if wanted in allowed else f"{room or PACKAGE} may import {sorted(allowed)}"


def _tree() -> dict[str, str]:
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}


def test_the_sources_keep_to_the_map() -> None:
    assert offences(_tree()) == []


def test_the_sources_are_really_there_and_their_imports_are_seen() -> None:
    sources = _tree()
    seen = {
        name
        for path, source in sources.items()
        for _, name in _imports(ast.parse(source), path)
        if name.startswith(("busbw.", "jax", "pytest"))
    }
    assert {"busbw/wire.py", "busbw/plugin/config.py"} <= set(sources)
    assert {
        "busbw.model.case.Case",
        "jax.numpy",
        "pytest",
        f"{BACKENDS}.base.AbstractBackend",
    } <= seen


# A module in each room; the package itself, which is "", imports none and is imported by all.
MODULES = {
    room: f"{path}.py" if (ROOT / f"{path}.py").exists() else f"{path}/__init__.py"
    for room, path in ((room, f"{PACKAGE}/{room}") for room in ALLOWED)
    if room
}
FORBIDDEN_ROOMS = [
    (path, other)
    for room, path in MODULES.items()
    for other in MODULES
    if other != room and other not in ALLOWED[room]
]
# What is not said by rooms alone: foreign packages, forms of an import, packages beside.
FORBIDDEN = [
    ("busbw/model/words.py", "from ..wire import to_json"),
    ("busbw/model/__init__.py", "from .. import wire"),
    ("busbw/metrics.py", "import busbw.stats"),
    ("busbw/worker/measure.py", "from busbw import driver"),
    ("busbw/worker/measure.py", "from busbw import metrics, model"),
    ("busbw/worker/backends/base.py", "from ...judge import Policy"),
    ("busbw/driver/local.py", "import busbw.worker.serve as serve"),
    ("busbw/commands/run.py", "from busbw import __main__"),
    ("busbw/extensions/estimate/costs.py", "from busbw.plugin import terminal"),
    ("busbw/__init__.py", "from .plugin import verdict"),
    ("busbw/__init__.py", "import numpy"),
    ("busbw/storage.py", "import filelock"),
    ("busbw/extensions/cluster/host.py", "import execnet"),
    ("busbw/extensions/cluster/host.py", "from distributed import Client"),
    ("busbw/extensions/cluster/transport.py", "from cryptography import fernet"),
    ("busbw/collectives/base.py", "import numpy as np"),
    ("busbw/worker/device_clock.py", "from google.protobuf import message"),
    ("busbw/driver/executor.py", "import jax"),
    ("busbw/worker/measure.py", "import jax.numpy as jnp"),
    ("busbw/worker/measure.py", "from tensorflow import distribute"),
    ("busbw/worker/backendsish.py", "import jax"),
    ("busbw/worker/backends/__init__.py", "import jax"),
    ("busbw/worker/backends/values.py", "from jax import numpy"),
    ("busbw/worker/host.py", "import pynvml"),
    ("busbw/worker/backends/jaxish.py", "import jax"),
    ("busbw/program/hlo.py", "import jaxlib"),
    ("busbw/worker/backends/tensorflow/nets.py", "import jax.numpy as jnp"),
    ("busbw/worker/backends/jax/collective.py", "import tensorflow as tf"),
    ("busbw/worker/backends/framework.py", "from tensorflow import distribute"),
    ("busbw/worker/backends/fake/backend.py", "from packaging.version import Version"),
    ("busbw/collectives/permute.py", "import numpy as np"),
    ("busbw/plugin/config.py", "import tensorflow as tf"),
    ("busbw/judge/case.py", "import pytest"),
    ("busbw/session/phases.py", "import pytest"),
    ("busbw/session/phases.py", "from busbw.plugin import terminal"),
    ("busbw/report/table.py", "from _pytest.terminal import TerminalReporter"),
    ("busbw/worker/measure.py", "import pytest"),
    ("busbw/extensions/page/figures.py", "import altair"),
    ("busbw/extensions/page/figure_command.py", "import vl_convert as vlc"),
    ("busbw/extensions/page/page.py", "from vl_convert import vegalite_to_svg"),
    ("busbw/judge/rule.py", "import numpy as np"),
    ("busbw/grid.py", "from numpy import array"),
    ("busbw/wire.py", "import pydantic"),
    ("busbw/wire.py", "import annotationlib"),
    ("busbw/worker/host.py", "import psutil"),
    ("busbw/judge/case.py", "from bench import error_rates"),
    ("busbw/commands/run.py", "from bench import fidelity"),
]
IN_A_FUNCTION = "def f() -> None:\n    {}\n"
FOR_TYPES = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    {}\n"


def _dotted(room: str) -> str:
    return f"busbw.{room.replace('/', '.')}"


def test_a_room_imports_those_that_the_map_says_and_no_other() -> None:
    for room, path in MODULES.items():
        others = sorted(ALLOWED[room] - {""}) or [room]
        assert offences({path: "\n".join(f"import {_dotted(other)}" for other in others)}) == []
    for path, other in FORBIDDEN_ROOMS:
        offence = offences({path: f"import {_dotted(other)}"})
        assert len(offence) == 1 and offence[0].startswith(f"{path}:1: {_dotted(other)}: "), (
            path,
            other,
        )


@pytest.mark.parametrize("around", ["{}", IN_A_FUNCTION, FOR_TYPES], ids=["top", "in", "types"])
@pytest.mark.parametrize(("path", "line"), FORBIDDEN)
def test_a_forbidden_import_is_an_offence_wherever_it_stands(
    path: str, line: str, around: str
) -> None:
    (offence,) = offences({path: around.format(line)})
    assert offence.startswith(f"{path}:")


@pytest.mark.parametrize(("path", "line"), FORBIDDEN[::9])
def test_a_forbidden_import_in_the_real_tree_is_an_offence(path: str, line: str) -> None:
    sources = _tree()
    assert len(offences({**sources, path: f"{sources.get(path, '')}\n{line}\n"})) == 1


@pytest.mark.parametrize(
    "line", ['import_module("jax")', 'importlib.import_module("jax")', '__import__("jax.numpy")']
)
def test_an_import_by_a_literal_name_counts(line: str) -> None:
    assert len(offences({"busbw/plugin/config.py": line})) == 1


def test_an_import_by_a_computed_name_is_an_offence() -> None:
    (offence,) = offences({"busbw/plugin/config.py": "importlib.import_module(name)"})
    assert "cannot be checked" in offence


@pytest.mark.parametrize("path", ["busbw/helper.py", "busbw/rooms/one.py", "busbw/models.py"])
def test_a_room_that_the_map_does_not_know_is_an_offence(path: str) -> None:
    (offence,) = offences({**_tree(), path: ""})
    assert "is not in the map" in offence


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("busbw/judge/case.py", "from .policy import Policy"),
        ("busbw/driver/bundle.py", "import busbw"),
        ("busbw/plugin/phases.py", "from busbw import __version__, judge"),
        ("busbw/plugin/phases.py", "import pytest"),
        ("busbw/extensions/estimate/command.py", "from . import costs"),
        ("busbw/__main__.py", "from busbw.commands import main"),
        ("busbw/extensions/page/drawing.py", "import vl_convert"),
        ("busbw/worker/backends/values.py", "import numpy as np"),
        ("busbw/worker/operations/counters.py", "import pynvml"),
        ("busbw/worker/backends/jax/backend.py", "from jax import lax"),
        ("busbw/worker/backends/jax/__init__.py", "from . import versions"),
        ("busbw/worker/backends/jax/lowerings/permute.py", "import jax"),
        ("busbw/worker/backends/tensorflow/backend.py", "import tensorflow as tf"),
        ("busbw/commands/run.py", "from packaging.specifiers import SpecifierSet"),
        ("busbw/model/machine.py", "from . import words"),
    ],
)
def test_what_the_map_allows_is_no_offence(path: str, line: str) -> None:
    assert offences({path: line}) == []


def test_syntax_newer_than_python_3_11_is_an_offence_where_foreign_interpreters_read() -> None:
    for path in ("wire.py", "model/words.py", "collectives/base.py", "worker/serve.py"):
        assert len(offences({f"busbw/{path}": "type Pair = tuple[int, int]\n"})) == 1
