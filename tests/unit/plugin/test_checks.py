"""What needs no device is said while another session has the machine: nobody waits to read it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.driver.local import alone
from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep
from tests.unit.plugin import standing_in

JAX = ("--frameworks=jax", f"--python=jax={sys.executable}")
BLOCKS = ("--collectives=all_to_all", "--payloads=8")
_HAS = "#!/bin/sh\necho '{}'\n"


@pytest.fixture
def busy(folder: Folder) -> Iterator[Folder]:
    """A folder whose machine another session has; a session that waits for it fails."""
    with alone(0):
        yield folder


def said(busy: Folder, *options: str) -> str:
    """The usage error of a session that would wait for as long as a test may take."""
    ran = busy.run("--device-wait=3600", *options, exit_code=4)
    assert "waiting for its end" not in ran.text
    assert len(ran.sentence.replace(str(busy.path), "")) <= 3 * 80
    return ran.sentence


def having(folder: Folder, name: str, **found: object) -> str:
    """An interpreter that answers what it has, and would be no worker."""
    path = folder.path / name
    path.write_text(_HAS.format(json.dumps({"python": "3.11.4", **found})))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    sweep(
        [
            (("--device=tpu",), "no TPU to measure on (fake: not in the script)"),
            (("--mesh=2x4", "--ranks=4"), "--ranks=4 asks for 4"),
            (("--mesh=2x4", "--axes=z"), "no axis of the mesh 2x4; it has x, y"),
            ((*BLOCKS, "--ranks=4"), "payload of 8 is not 4 equal blocks of float32"),
            ((*BLOCKS, "--mesh=2x2"), "payload of 8 is not 4 equal blocks of float32"),
            ((*BLOCKS, "--device=cpu"), "payload of 8 is not 4 equal blocks of float32"),
            (
                ("--frameworks=jax", "--python=jax=/bin/false"),
                "--python: /bin/false does not run as Python: it said nothing",
            ),
            (("--against=baseline",), "--against=baseline: fake: no stack is locked below "),
        ],
        in_gate=2,
    ),
)
def test_what_no_device_decides(busy: Folder, options: tuple[str, ...], sentence: str) -> None:
    assert sentence in said(busy, *options)


@pytest.mark.exhaustive
def test_a_session_on_a_tpu_that_is_there_waits_without_a_message_before(folder: Folder) -> None:
    folder.script(device="tpu", device_kind="TPU v2", ranks=8)
    with alone(0):
        ran = folder.run("--device=tpu", "--device-wait=0.3", exit_code=4)
    assert "another session has been measuring on this machine" in ran.sentence
    assert folder.run("--device=tpu", exit_code=0).outcomes == {"1M": "NO_BASELINE"}


@pytest.mark.parametrize(
    ("found", "sentence"),
    sweep(
        [
            ({"missing": ["jax"]}, "no jax there; needed are jax and numpy"),
            ({"missing": ["jax", "numpy"]}, "no jax and no numpy there; needed are jax and numpy"),
            ({"python": "3.10.14"}, "Python 3.10.14 is too old: expected 3.11 or newer"),
            ({"version": "0.4.38"}, "jax 0.4.38 is too old: expected 0.5.0 or newer"),
        ]
    ),
)
@pytest.mark.parametrize("option", sweep(["--python", "--against"]))
def test_an_interpreter_without_what_is_needed(
    busy: Folder, option: str, found: dict[str, object], sentence: str
) -> None:
    python = having(busy, "theirs", **found)
    ours = having(busy, "ours", version="0.5.0")
    against = [f"--against={python}"] if option == "--against" else []
    candidate = ours if against else python
    ending = said(busy, "--frameworks=jax", f"--python=jax={candidate}", *against)
    assert ending == f"ERROR: busbw: {option}: {python}: {sentence}"


@pytest.mark.exhaustive
def test_what_is_wrong_with_a_reference_counts_if_no_framework_has_one(busy: Folder) -> None:
    ours, theirs = having(busy, "ours"), having(busy, "theirs", missing=["jax"])
    pythons = tuple(f"--python={name}={ours}" for name in ("jax", "tensorflow"))
    options = ("perf", "--payloads=1M", "--device-wait=3600", *pythons, f"--against={theirs}")
    ran = busy.pytest(*options, exit_code=4, reports=False)
    assert f"--against: {theirs}: no jax there" in ran.sentence


@pytest.mark.exhaustive
def test_an_interpreter_that_does_not_answer_is_left_to_the_probe(folder: Folder) -> None:
    python = Path(standing_in.interpreter(folder))
    text = python.read_text()
    python.write_text(text.replace("\n", '\n[ "$1" = -c ] && kill -9 $$\n', 1))
    options = ("perf", "--frameworks=jax", "--payloads=1M", "--launches=1")
    ran = folder.pytest(*options, f"--python=jax={python}", exit_code=0)
    assert ran.outcomes == {"1M": "NO_BASELINE"}
