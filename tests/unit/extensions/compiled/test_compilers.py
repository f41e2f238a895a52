"""Releases of libtpu, and several workers that compile: every program has a result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import Executor
from busbw.driver.local import LocalWorker
from busbw.extensions.compiled import compilers
from busbw.extensions.compiled.compilers import ParallelCompiler
from busbw.extensions.compiled.judge import CompileJob
from busbw.model.machine import Protocol
from busbw.session.option import UsageError
from tests.helpers import compiled as made
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


@pytest.mark.workers
@pytest.mark.parametrize("event", sweep(["listen", "compile"]))
def test_an_interrupt_of_workers_that_compile_leaves_no_worker(bundle: Bundle, event: str) -> None:
    def interrupt(worker: LocalWorker, done: str) -> None:
        if done == event:
            raise KeyboardInterrupt

    protocol = Protocol.parse("device/fake")
    jobs = {
        made.spec(payload_bytes=size): CompileJob(
            case=replace(case(size), ranks=8, protocol=protocol), key=KEY
        )
        for size in (1024, 2048, 3072)
    }
    running = ParallelCompiler(
        Executor(Watched(bundle, interrupt)),
        {"": replace(worker_spec(), service="compile")},
        worker_count=2,
        timeout_s=60.0,
    )
    with pytest.raises(KeyboardInterrupt):
        running.compile_jobs(jobs)
    assert not processes(bundle.path)


@pytest.mark.workers
def test_a_compiler_whose_worker_cannot_start_is_described_as_missing_with_the_reason(
    bundle: Bundle,
) -> None:
    begin = replace(worker_spec("/bin/false"), service="compile")
    running = ParallelCompiler(executor(bundle), {"": begin}, worker_count=1, timeout_s=5.0)
    with running.executor:
        assert "exit code 1" in running.describe_compiler("", "v5e:2x4").missing
