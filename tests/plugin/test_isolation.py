"""The pytest process never imports a framework, at collection or later."""

from __future__ import annotations

from .folder import Folder

WATCH = """
import sys

def seen(when):
    there = [name for name in ("jax", "jaxlib", "tensorflow") if name in sys.modules]
    print(f"\\nat {when}: {there}", file=sys.stderr)

def pytest_collection_finish():
    seen("collection")

def pytest_unconfigure():
    seen("end")
"""


def test_neither_framework_is_imported_at_collection_or_at_the_end(folder: Folder) -> None:
    (folder.path / "watch.py").write_text(WATCH)
    ran = folder.run("-p", "watch", "-s", "--update-baselines", exit_code=0)
    assert "at collection: []" in ran.text
    assert "at end: []" in ran.text


def test_collecting_every_framework_imports_none(folder: Folder) -> None:
    (folder.path / "watch.py").write_text(WATCH)
    for name in ("jax", "tensorflow"):
        (folder.path / f"{name}.py").write_text("raise AssertionError('imported')\n")
    options = ("-p", "watch", "-s", "--frameworks=jax,tensorflow,fake", "--collect-only")
    ran = folder.run(*options, exit_code=0)
    assert "tensorflow-default-float32-1M" in ran.text
    assert "at collection: []" in ran.text
    assert "at end: []" in ran.text
