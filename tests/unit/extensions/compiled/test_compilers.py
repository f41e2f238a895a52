"""Releases of libtpu, and several workers that compile: every program has a result."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalWorker
from busbw.extensions.compiled import compilers
from busbw.extensions.compiled.compilers import CompileJob, ParallelCompiler
from busbw.extensions.compiled.topologies import topology_of
from busbw.model.case import Case
from busbw.model.machine import Protocol
from busbw.session.option import UsageError
from tests.helpers.sweep import sweep
from tests.helpers.wheels import use_index, wheel
from tests.helpers.workers import KEY, Watched, case, executor, processes, worker_spec


@pytest.mark.slow
def test_a_release_of_libtpu_is_downloaded_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    wheel(index, "libtpu", "0.0.42", files={"libtpu/libtpu.so": ""})
    use_index(monkeypatch, index)
    library = tmp_path / "libtpu" / "0.0.42" / "libtpu" / "libtpu.so"
    assert compilers.download_libtpu("0.0.42", tmp_path) == library
    monkeypatch.setenv("PATH", "")
    assert compilers.download_libtpu("0.0.42", tmp_path) == library
    with pytest.raises(UsageError, match=r"^--libtpu=9\.0\.43: uv"):
        compilers.download_libtpu("9.0.43", tmp_path)


V5E = topology_of("v5e:2x4")


def compiling(
    bundle: Bundle, workers: int = 2, timeout_s: float = 30.0, python: str = sys.executable
) -> ParallelCompiler:
    begin = replace(worker_spec(python), service="compile")
    return ParallelCompiler(
        executor(bundle), {"": begin}, worker_count=workers, timeout_s=timeout_s
    )


def jobs(count: int) -> list[CompileJob]:
    return [
        CompileJob(case=_case(1024 * (number + 1)), topology=V5E, key=KEY)
        for number in range(count)
    ]


def _case(payload_bytes: int) -> Case:
    return replace(case(payload_bytes), ranks=8, protocol=Protocol.parse("device/fake"))


def interrupted(bundle: Bundle, event: str) -> ParallelCompiler:
    """Compile in workers whose driver is interrupted as it does `event` to one of them."""

    def interrupt(worker: LocalWorker, done: str) -> None:
        if done == event:
            raise KeyboardInterrupt

    begin = replace(worker_spec(), service="compile")
    executor = Executor(Watched(bundle, interrupt))
    return ParallelCompiler(executor, {"": begin}, worker_count=2, timeout_s=60.0)


@pytest.mark.workers
@pytest.mark.parametrize("event", sweep(["listen", "compile"]))
def test_an_interrupt_of_workers_that_compile_leaves_no_worker(bundle: Bundle, event: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(bundle, event).compile_jobs(jobs(3))
    assert not processes(bundle.path)


@pytest.mark.workers
def test_a_compiler_whose_worker_cannot_start_is_described_as_missing_with_the_reason(
    bundle: Bundle,
) -> None:
    running = compiling(bundle, workers=1, timeout_s=5.0, python="/bin/false")
    (described,) = running.describe_compilers("", [V5E])
    assert "exit code 1" in described.missing
