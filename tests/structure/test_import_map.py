"""The import map of the design: which package may import which, and foreign packages where.

No source is imported for this: imports inside functions and under TYPE_CHECKING count, and so do
literal names given to `import_module`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

PACKAGE = "busbw"
ROOT = Path(__file__).parents[2]

# Every package, and the packages that it may import. "" is busbw/__init__.py.
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
    "judge": {"model", "metrics", "hardware", "stats"},
    "baselines": {"model", "wire", "storage", "extensions"},
    "history": {"model", "wire", "stats", "storage", "extensions"},
    "report": {"model", "wire", "collectives", "metrics", "hardware", "extensions"},
    "extensions": {"wire"},
    # What extensions send to workers: their files worker*.py.
    "extensions/worker": {"model", "wire", "storage", "collectives", "worker"},
    "extensions/cluster": {"model", "wire", "storage", "driver"},
    "worker": {"model", "wire", "storage", "collectives", "extensions"},
    "driver": {"model", "wire", "storage", "extensions"},
}
_OURS = set(_PURE) - {"worker", "extensions/worker"}
_INTERFACES = {name: _OURS | {"session"} for name in ("plugin", "cli")}
_MAIN = {"__main__": {"cli"}}
# An extension imports anything in the core but the plugin, and what other extensions send to
# workers. These import other extensions, too.
_OF_EXTENSIONS = _OURS | {"session", "cli", "extensions/worker"}
_EXTENSIONS: Mapping[str, set[str]] = {
    "extensions/bisect": {"extensions/stacks"},
    # The files of the cluster that read options, and are not sent to hosts.
    "extensions/options": {"extensions/cluster"},
    "extensions/compiled": {"extensions/program", "extensions/stacks"},
    "extensions/profiles": {"worker"},
}
_CLUSTER_OPTIONS = ("options", "settings")
ALLOWED = {
    **_PURE,
    "session": _OURS,
    **_INTERFACES,
    **_MAIN,
    **{name: _OF_EXTENSIONS | others for name, others in _EXTENSIONS.items()},
}

BACKENDS = "busbw.worker.backends"
# The modules below which a foreign package may be imported.
ONLY_BELOW: Mapping[str, str | tuple[str, ...]] = {
    "jax": (
        f"{BACKENDS}.jax",
        "busbw.extensions.*.worker_jax",
        "busbw.extensions.profiles.recordings",
    ),
    "jaxlib": f"{BACKENDS}.jax",
    "tensorflow": f"{BACKENDS}.tensorflow",
    "numpy": (
        "busbw.worker",
        "busbw.stats",
        "busbw.extensions.*.worker_*",
    ),
    "scipy": "busbw.stats",
    "pytest": "busbw.plugin",
    "_pytest": "busbw.plugin",
    "pytest_benchmark": "busbw.plugin",
    "altair": "busbw.extensions.page.charts",
    "vl_convert": "busbw.extensions.page.charts",
    "jinja2": "busbw.extensions.page.page",
    "markupsafe": "busbw.extensions.page.page",
    "pynvml": "busbw.extensions.soak.worker_health",
    "libtpu": "busbw.extensions.soak.worker_health",
    "execnet": "busbw.extensions.cluster.transport",
    "distributed": "busbw.extensions.cluster.over_dask",
    "cloudpickle": "busbw.extensions.cluster.over_dask",
    # A package beside ours, which imports it and is never imported by it.
    "bench": "bench",
}

# Sent to interpreters from Python 3.11 on, which have none of our site-packages.
SENT = {
    "",
    "model",
    "wire",
    "storage",
    "collectives",
    "worker",
    "driver",
    "extensions",
    "extensions/cluster",
    "extensions/worker",
}
SINCE_OLDEST = {"annotationlib", "compression"}
STANDARD = set(sys.stdlib_module_names) - SINCE_OLDEST


def violations(sources: Mapping[str, str]) -> list[str]:
    """Describe what violates the map in `sources`: texts by a path such as ``busbw/wire.py``."""
    descriptions = []
    for path, source in sorted(sources.items()):
        package = _package(_module(path))
        if _allowed(package) is None:
            descriptions.append(f"{path}: the package {package!r} is not in the map")
            continue
        for line, name in _imports(ast.parse(source, path), path):
            reason = _objection(_module(path), package, name)
            if reason:
                descriptions.append(f"{path}:{line}: {name}: {reason}")
    return descriptions


def _allowed(package: str) -> set[str] | None:
    """Return the packages that `package` may import; a new extension is in no list."""
    is_extension = package.startswith("extensions/")
    return ALLOWED.get(package, _OF_EXTENSIONS if is_extension else None)


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _package(module: str) -> str:
    """Return the package of a module below busbw; "" for busbw/__init__.py."""
    _, *names = module.split(".")
    if names[:1] == ["extensions"] and names[2:] and names[2].startswith("worker"):
        return "extensions/worker"
    if names[:2] == ["extensions", "cluster"] and names[2:3] and names[2] in _CLUSTER_OPTIONS:
        return "extensions/options"
    return "/".join(names[: 2 if names[:1] == ["extensions"] else 1])


def _imports(tree: ast.AST, path: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the absolute name of each import in a file."""
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
    """Return a literal name, the module itself for a name that begins with it, "?" for others."""
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


def _objection(module: str, package: str, name: str) -> str:
    """Return why `module` of `package` may not import `name`; "" if it may."""
    top = name.split(".")[0]
    if name == "?":
        return "an import whose name is not written out cannot be checked"
    if top == PACKAGE:
        return _objection_to_busbw(package, name)
    below = ONLY_BELOW.get(top)
    places = (below,) if isinstance(below, str) else below or ()
    if below and not any(fnmatchcase(f"{module}.", f"{place}.*") for place in places):
        return f"only below {' or '.join(places)}"
    if package in SENT and not below and top not in STANDARD:
        return f"{package or PACKAGE} has the standard library of Python 3.11 only"
    return ""


def _objection_to_busbw(package: str, name: str) -> str:
    imported, allowed = _package(name), _allowed(package) or set()
    if imported in (package, "__version__", "", *allowed):
        return ""
    return f"{package or PACKAGE} may import {sorted(allowed)}"


def test_the_sources_of_busbw_follow_the_import_map() -> None:
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    assert len(files) > 100
    assert violations({path.relative_to(ROOT).as_posix(): path.read_text() for path in files}) == []


# A module in each package but busbw/__init__.py, which imports no package.
MODULES = {
    name: f"{path}.py" if (ROOT / f"{path}.py").exists() else f"{path}/__init__.py"
    for name, path in ((name, f"{PACKAGE}/{name}") for name in ALLOWED)
    if name
}
FORBIDDEN_PACKAGES = [
    (path, other)
    for name, path in MODULES.items()
    for other in MODULES
    if other != name and other not in ALLOWED[name]
]
# Foreign packages, and each form of an import.
FORBIDDEN = [
    ("busbw/model/words.py", "from ..wire import to_json"),
    ("busbw/model/__init__.py", "from .. import wire"),
    ("busbw/metrics.py", "import busbw.stats"),
    ("busbw/worker/measure.py", "from busbw import driver"),
    ("busbw/worker/measure.py", "from busbw import metrics, model"),
    ("busbw/worker/backends/base.py", "from ...judge import Policy"),
    ("busbw/driver/local.py", "import busbw.worker.serve as serve"),
    ("busbw/cli/run.py", "from busbw import __main__"),
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
    ("busbw/extensions/program/worker.py", "import jaxlib"),
    ("busbw/worker/backends/tensorflow/nets.py", "import jax.numpy as jnp"),
    ("busbw/worker/backends/jax/collective.py", "import tensorflow as tf"),
    ("busbw/worker/backends/framework.py", "from tensorflow import distribute"),
    ("busbw/worker/backends/fake/__init__.py", "from packaging.version import Version"),
    ("busbw/collectives/permute.py", "import numpy as np"),
    ("busbw/plugin/config.py", "import tensorflow as tf"),
    ("busbw/judge/case.py", "import pytest"),
    ("busbw/session/run.py", "import pytest"),
    ("busbw/session/run.py", "from busbw.plugin import terminal"),
    ("busbw/report/table.py", "from _pytest.terminal import TerminalReporter"),
    ("busbw/worker/measure.py", "import pytest"),
    ("busbw/extensions/page/curves.py", "import altair"),
    ("busbw/extensions/page/figure_command.py", "import vl_convert as vlc"),
    ("busbw/extensions/page/page.py", "from vl_convert import vegalite_to_svg"),
    ("busbw/judge/rule.py", "import numpy as np"),
    ("busbw/grid.py", "from numpy import array"),
    ("busbw/wire.py", "import pydantic"),
    ("busbw/wire.py", "import annotationlib"),
    ("busbw/worker/host.py", "import psutil"),
    ("busbw/judge/case.py", "from bench import error_rates"),
    ("busbw/cli/run.py", "from bench import fidelity"),
]
IN_A_FUNCTION = "def f() -> None:\n    {}\n"
FOR_TYPES = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    {}\n"


def _dotted(package: str) -> str:
    return f"busbw.{package.replace('/', '.')}"


def test_a_package_may_import_only_the_packages_that_the_import_map_lists() -> None:
    for name, path in MODULES.items():
        others = sorted(ALLOWED[name] - {""}) or [name]
        assert violations({path: "\n".join(f"import {_dotted(other)}" for other in others)}) == []
    for path, other in FORBIDDEN_PACKAGES:
        (violation,) = violations({path: f"import {_dotted(other)}"})
        assert violation.startswith(f"{path}:1: {_dotted(other)}: ")


@pytest.mark.parametrize("around", ["{}", IN_A_FUNCTION, FOR_TYPES], ids=["top", "in", "types"])
@pytest.mark.parametrize(("path", "line"), FORBIDDEN)
def test_a_forbidden_import_is_a_violation_at_each_place_in_a_file(
    path: str, line: str, around: str
) -> None:
    (violation,) = violations({path: around.format(line)})
    assert violation.startswith(f"{path}:")


def test_an_import_by_a_computed_name_is_a_violation() -> None:
    (violation,) = violations({"busbw/plugin/config.py": "importlib.import_module(name)"})
    assert "cannot be checked" in violation


def test_no_extension_except_the_health_check_of_soak_adds_a_doubt_to_a_verdict() -> None:
    paths = (ROOT / PACKAGE / "extensions").rglob("*.py")
    doubting = [path.as_posix() for path in paths if "doubt=" in path.read_text()]
    assert [path.partition("extensions/")[2] for path in doubting] == ["soak/findings.py"]
