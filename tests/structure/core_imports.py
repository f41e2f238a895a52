"""The imports of core files from files of optional features, kept in `core_imports.json`.

    python -m tests.structure.core_imports    # write the present imports

Each import is a pair of the importing core file and the optional file. The list may only shrink: an
optional feature is to become an extension that can be deleted without a change of the core.
"""

from __future__ import annotations

import ast
import fnmatch
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.structure import sources

_FILE = Path(__file__).with_name("core_imports.json")

# The files of each optional feature, as patterns of paths below busbw/ without the suffix.
FEATURES: Mapping[str, Sequence[str]] = {
    "bisect": ("extensions/bisect/*",),
    "bus bandwidth of the hardware": ("hardware/ceiling", "hardware/chips"),
    "cluster": (*("extensions/cluster/*", "worker/backends/fake/exchange"),),
    "compiled": (
        *("session/compilation", "session/compilers", "driver/parallel", "judge/compiled"),
        *("extensions/compiled/*", "hardware/topologies"),
    ),
    "estimate": ("extensions/estimate/*",),
    "history": (
        *("history/levels", "history/failing"),
        *("cli/history", "session/histories"),
    ),
    "injection": ("worker/backends/jax/injection",),
    "metrics": ("extensions/metrics/*",),
    "page": ("extensions/page/*",),
    "pairs": ("judge/paired",),
    "profiles": ("extensions/profiles/*",),
    "program": ("extensions/program/*",),
    "results": (
        *("report/results", "report/reading"),
        *("report/summary", "cli/sessions", "cli/summary"),
    ),
    "setup": ("extensions/setup/*",),
    "soak": ("extensions/soak/*",),
    "stacks": ("extensions/stacks/*",),
    "stragglers": ("extensions/stragglers/*",),
}

Edge = tuple[str, str]


def feature(path: str) -> str:
    """Return the optional feature that the file `path` belongs to, or "" for the core."""
    name = path.removeprefix("busbw/").removesuffix(".py")
    for owner, patterns in FEATURES.items():
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            return owner
    return ""


def measure(files: Iterable[tuple[str, str]]) -> list[Edge]:
    """Return each pair of a core file and an optional file that the core file imports, sorted."""
    texts = {path: text for path, text in files if path.startswith("busbw/")}
    paths = {_module(path): path for path in texts}
    return sorted(
        {
            (path, paths[module])
            for path, text in texts.items()
            if not feature(path)
            for module in _imports(path, text)
            if module in paths and feature(paths[module])
        }
    )


def read() -> list[Edge]:
    """Read the imports that are allowed."""
    return [(core, optional) for core, optional in json.loads(_FILE.read_text(encoding="utf-8"))]


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imports(path: str, text: str) -> Iterator[str]:
    """Yield the absolute name of each module that may be meant by an import of the file."""
    folders = path.removesuffix(".py").split("/")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = folders[: len(folders) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


if __name__ == "__main__":
    lines = ",\n".join(f"  {json.dumps(edge)}" for edge in measure(sources.python_files()))
    _FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
