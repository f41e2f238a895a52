"""The Python files of the repository, each with the packages that it counts for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

_TOP = ("busbw", "tests", "bench", "perf", "studies")


def python_files(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield the path relative to `root`, and the text, of each Python file."""
    for top in _TOP:
        for path in sorted((root / top).rglob("*.py")):
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def packages(path: str) -> list[str]:
    """Return the packages that the file `path` counts for, sums first."""
    top, *folders = path.split("/")
    if top == "tests" and len(folders) > 2:
        # The tests of an extension are in folders of its name.
        name = folders[2] if folders[1] == "extensions" else folders[1]
        is_extension = (ROOT / "busbw" / "extensions" / name).is_dir()
        return [top, f"tests/{name}"] if is_extension else [top]
    if top != "busbw":
        return [top]
    if len(folders) > 2 and folders[0] == "extensions":
        return ["busbw", "extensions", f"extensions/{folders[1]}"]
    return ["busbw", "core", f"busbw/{folders[0]}" if len(folders) > 1 else "busbw/*.py"]
