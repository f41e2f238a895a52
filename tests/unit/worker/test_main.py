"""The process of a worker before its framework starts: variables, garbage collection, parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import busbw
from busbw.model.words import DeviceClass
from busbw.worker import __main__ as entry


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("OPENBLAS_NUM_THREADS", "8", {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}),
        ("JAX_PLATFORMS", "tpu,cpu", {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}),
    ],
)
def test_variables_of_the_user_do_not_give_a_cpu_worker_more_threads_or_other_devices(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: dict[str, str]
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, name: text})
    entry.set_framework_variables(DeviceClass.CPU)
    assert expected.items() <= os.environ.items()


@pytest.mark.parametrize(("others", "ends"), [(0, (0, b"goes on\n")), (1, (1, b""))])
def test_a_worker_whose_driver_ended_during_its_start_ends(
    others: int, ends: tuple[int, bytes]
) -> None:
    code = (
        "import os; from busbw.worker import __main__ as entry; "
        f"entry.end_with_parent(os.getppid() + {others}); print('goes on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(busbw.__file__).parents[1])},
    )
    assert (done.returncode, done.stdout) == ends
