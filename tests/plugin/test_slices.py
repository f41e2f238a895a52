"""A TPU slice of several hosts: told before anything waits for the others for ever."""

from __future__ import annotations

from tests.worker.backends.real import needs

from .folder import Folder


@needs("jax")
def test_one_host_of_a_slice_alone_is_a_usage_error(folder: Folder) -> None:
    folder.environment.setenv("TPU_WORKER_HOSTNAMES", "a,b,c,d")
    options = ("perf", "--frameworks=jax", "--device=tpu", "--payloads=1K")
    sentence = folder.pytest(*options, exit_code=4).sentence
    assert "this host is one of 4 of its TPU slice (TPU_WORKER_HOSTNAMES)" in sentence
    assert "did you run on all hosts? Start `python -m busbw run perf/`" in sentence
    assert "--processes=4 --agents=4" in sentence


@needs("jax")
def test_a_host_that_is_told_to_be_alone_is_not_asked_for_the_others(folder: Folder) -> None:
    folder.environment.setenv("TPU_WORKER_HOSTNAMES", "a,b,c,d")
    folder.environment.setenv("TPU_PROCESS_BOUNDS", "1,1,1")
    options = ("perf", "--frameworks=jax", "--device=tpu", "--payloads=1K")
    assert "of its TPU slice" not in folder.pytest(*options, exit_code=4).sentence
