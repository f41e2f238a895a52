"""A worker's environment before its framework starts, and the restart for huge pages."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

import busbw
from busbw.model import variables
from busbw.model.words import Device
from busbw.worker import process
from busbw.worker.__main__ import without_garbage_collection


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A copy of this process's, as the driver gives it to a worker."""
    monkeypatch.setattr(os, "environ", variables.with_huge_pages(os.environ))
    return monkeypatch


def test_products_of_numpy_leave_no_threads_spinning_whatever_the_user_has(
    environment: pytest.MonkeyPatch,
) -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "8"
    process.prepare(Device.CPU)
    assert os.environ["OPENBLAS_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"


def test_on_the_cpu_no_framework_looks_for_another_device(environment: pytest.MonkeyPatch) -> None:
    os.environ["JAX_PLATFORMS"] = "tpu,cpu"
    process.prepare(Device.CPU)
    assert (os.environ["JAX_PLATFORMS"], os.environ["CUDA_VISIBLE_DEVICES"]) == ("cpu", "-1")


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What this process would have become, had it restarted; it has another tunable."""
    found: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "environ", {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.check=0"})
    monkeypatch.setattr(os, "execv", lambda *command: found.append(command))
    return found


def test_a_process_that_no_driver_started_restarts_once_with_huge_pages(
    restarts: list[tuple[object, ...]],
) -> None:
    process.prepare(Device.CPU)
    process.prepare(Device.CPU)
    assert os.environ["GLIBC_TUNABLES"] == "glibc.malloc.check=0:glibc.malloc.hugetlb=1"
    assert restarts == [(sys.executable, [sys.executable, *sys.orig_argv[1:]])]
    assert process.allocator() == "hugepages"


def test_what_is_imported_is_never_looked_through_for_garbage_and_what_comes_later_is() -> None:
    before = gc.get_freeze_count()
    with without_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    gc.unfreeze()


def test_after_an_import_that_failed_garbage_is_collected_again() -> None:
    with pytest.raises(ImportError), without_garbage_collection():
        raise ImportError
    assert gc.isenabled()
    gc.unfreeze()


@pytest.mark.parametrize(("others", "ends"), [(0, (0, b"goes on\n")), (1, (1, b""))])
def test_one_whose_driver_has_ended_while_it_started_ends_too(
    others: int, ends: tuple[int, bytes]
) -> None:
    code = (
        "import os; from busbw.worker import process; "
        f"process.tie_to_parent(os.getppid() + {others}); print('goes on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(busbw.__file__).parents[1])},
    )
    assert (done.returncode, done.stdout) == ends
