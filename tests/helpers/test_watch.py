"""Every process of a test records the frameworks that it imports, also without a marker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.watch import sitecustomize as watch


@pytest.mark.parametrize(
    ("program", "seen"),
    [
        ("import jax.numpy", ["jax"]),
        ("import tensorflow as tf", ["tensorflow"]),
        ("import importlib.util as util; util.find_spec('jax'), util.find_spec('busbw')", []),
    ],
)
def test_a_framework_that_is_looked_for_but_not_imported_is_not_recorded_as_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, seen: list[str]
) -> None:
    for name in ("jax", "tensorflow"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "jax" / "numpy.py").touch()
    written = tmp_path / "written"
    written.mkdir()
    monkeypatch.setenv(watch.SEEN, str(written))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    subprocess.run([sys.executable, "-c", program], check=True)
    assert [path.name for path in written.iterdir()] == seen
