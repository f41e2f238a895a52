"""Results of sessions, measured curves and shapes, as the commands that take them read them."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from busbw import commands
from busbw.baselines.document import dumps
from tests.commands.test_estimate import _baseline
from tests.commands.test_prediction import _session, _strategies

from .bounds import bounded, fuzzed, unchanged
from .damage import documents


def _small(write: Callable[..., Path], *arguments: Any) -> Any:
    """What readers look at of the results that a test of the commands writes."""
    with tempfile.TemporaryDirectory() as name:
        document = json.loads(write(Path(name) / "a.json", *arguments).read_bytes())
    cases = [
        {
            "case": row["case"],
            "outcome": row["outcome"],
            "measured": {"times_s": row["measured"]["times_s"]},
            "launches": [{"over_ranks_s": one["over_ranks_s"]} for one in row["launches"]],
        }
        for row in document["cases"][:9]
    ]
    key = document["environment"]["key"]
    head = {name: document[name] for name in ("document", "version")}
    return {**head, "environment": {"key": key}, "cases": cases}


DENSE = _small(_session, 3.0)
NETS = _small(_strategies, "one_device", "mirrored", "parameter_server")
STORED = json.loads(dumps(_baseline("float32")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def _asked(*words: str) -> None:
    """The command ends with an exit code of its own and a sentence, or with an answer."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), bounded():
        code = commands.main(words)
    assert code in (0, 2)
    assert bool(out.getvalue()) is (code == 0)
    assert err.getvalue().startswith("busbw ") is (code == 2)


CURVE = ("estimate", "--gradient-bytes=1MiB", "--compute=10ms", "--want-efficiency=0.9")
SHAPES = ("estimate", "--ranks=4", "--bandwidth=1gbe", "--bucket=1KiB")


@fuzzed
@given(content=documents(DENSE, NETS, STORED))
def test_estimate_takes_any_curve_or_refuses_it(content: bytes, folder: Path) -> None:
    path = folder / "curve.json"
    path.write_bytes(content)
    with unchanged(folder):
        _asked(*CURVE, f"--curve={path}")


@fuzzed
@given(content=documents(DENSE, NETS))
def test_prediction_takes_any_results_or_refuses_them(content: bytes, folder: Path) -> None:
    path = folder / "results.json"
    path.write_bytes(content)
    with unchanged(folder):
        _asked("prediction", str(path))


@fuzzed
@given(content=documents({"w": [512, 2], "b": [2]}, {"a": [3, 3, 1, 32], "z": []}))
def test_estimate_takes_any_shapes_or_refuses_them(content: bytes, folder: Path) -> None:
    path = folder / "shapes.json"
    path.write_bytes(content)
    with unchanged(folder):
        _asked(*SHAPES, f"--shapes={path}")
