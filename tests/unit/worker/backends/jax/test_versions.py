"""Calls into older and newer versions of JAX, which stand-ins replace."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from busbw.model.machine import GroupMember
from busbw.model.words import DeviceClass
from busbw.worker.backends.base import MeasuringError

NAME = "busbw.worker.backends.jax.versions"

Load = Callable[..., Any]


def module(name: str, **fields: Any) -> ModuleType:
    """Return a module with the given fields and nothing else."""
    made = ModuleType(name)
    vars(made).update(fields)
    return made


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return a function that loads the file with a JAX of the given fields only."""

    def loaded(**fields: Any) -> Any:
        monkeypatch.setitem(sys.modules, "jax", module("jax", **fields))
        spec = importlib.util.find_spec(NAME)
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    return loaded


class _Profiler:
    """A profiler in place of JAX's that refuses its first starts with settings."""

    def __init__(self, *, refusing: int = 0) -> None:
        self.refusing = refusing
        self.started: list[dict[str, Any]] = []
        self.stopped = 0

    def ProfileOptions(self) -> SimpleNamespace:
        return SimpleNamespace(raise_error_on_start_failure=False)

    def start_trace(self, folder: Path, *, profiler_options: SimpleNamespace) -> None:
        assert folder == Path("d")
        self.started.append(vars(profiler_options))
        if len(self.started) <= self.refusing:
            raise RuntimeError("unknown setting\nsomewhere")

    def stop_trace(self) -> None:
        self.stopped += 1


def _recorded(load: Load, profiler: _Profiler, device: DeviceClass) -> None:
    jax = load(profiler=profiler, errors=SimpleNamespace(JaxRuntimeError=KeyError))
    with jax.run_profiler(Path("d"), device):
        assert (profiler.started != [], profiler.stopped) == (True, 0)
    assert profiler.stopped == 1


PLAIN = {"python_tracer_level": 0, "raise_error_on_start_failure": True}
# XLA's operations, and none of the SparseCores.
OF_TPU = {
    **PLAIN,
    "advanced_configuration": {
        "tpu_trace_mode": "TRACE_ONLY_XLA",
        "tpu_num_sparse_cores_to_trace": 0,
        "tpu_num_sparse_core_tiles_to_trace": 0,
    },
}


@pytest.mark.parametrize(
    ("device", "refusing", "started"),
    [
        (DeviceClass.CPU, 0, [PLAIN]),
        (DeviceClass.GPU, 0, [PLAIN]),
        (DeviceClass.TPU, 0, [OF_TPU]),
        # A TPU that knows no such settings is recorded without them.
        (DeviceClass.TPU, 1, [OF_TPU, PLAIN]),
    ],
)
def test_the_profiler_of_jax_starts_with_its_python_tracer_disabled(
    load: Load, device: DeviceClass, refusing: int, started: list[dict[str, Any]]
) -> None:
    profiler = _Profiler(refusing=refusing)
    _recorded(load, profiler, device)
    assert profiler.started == started


def test_a_profiler_of_jax_that_does_not_start_is_an_error_with_its_message(load: Load) -> None:
    profiler = _Profiler(refusing=2)
    with pytest.raises(MeasuringError, match=r"profiler does not start: unknown setting$"):
        _recorded(load, profiler, DeviceClass.TPU)
    assert profiler.stopped == 0


def _member(index: int, processes: int = 4, hosts: int = 2) -> GroupMember:
    addresses = tuple(f"10.0.0.{index}:400{index}" for index in range(processes))
    return GroupMember(index=index, addresses=addresses, hosts=hosts)


def _joining(load: Load, initialize: Callable[..., None]) -> Any:
    config = SimpleNamespace(update=lambda name, value: None)
    errors = SimpleNamespace(JaxRuntimeError=KeyError)
    return load(config=config, distributed=SimpleNamespace(initialize=initialize), errors=errors)


def test_a_jax_process_joins_its_group_without_cluster_detection(
    load: Load,
) -> None:
    options: dict[str, Any] = {}

    def initialize(
        coordinator_address: str,
        num_processes: int,
        process_id: int,
        local_device_ids: list[int] | None,
        cluster_detection_method: str,
        initialization_timeout: int,
        coordinator_bind_address: str | None,
    ) -> None:
        options.update(locals())

    joining = _joining(load, initialize)
    joining.join_group(_member(3), 4)
    assert options["coordinator_address"] == "10.0.0.0:4000"
    assert (options["num_processes"], options["process_id"]) == (4, 3)
    # The second process of its host, after that one's first four GPUs.
    assert options["local_device_ids"] == [4, 5, 6, 7]
    assert options["cluster_detection_method"] == "deactivate"
    assert options["coordinator_bind_address"] is None
    joining.join_group(_member(0), 4)
    assert options["local_device_ids"] == [0, 1, 2, 3]
    assert options["coordinator_bind_address"] == "10.0.0.0:4000"
    # Where no number of ranks is asked for, a process takes all devices of its host.
    joining.join_group(_member(1), None)
    assert options["local_device_ids"] is None
    # It sees only the one that it shares.
    joining.join_group(replace(_member(3), shared_devices=1), 1)
    assert options["local_device_ids"] == [0]


def test_a_jax_process_that_does_not_reach_its_group_is_an_error_with_the_reason(
    load: Load,
) -> None:
    def initialize(**options: Any) -> None:
        raise RuntimeError("DEADLINE_EXCEEDED: nobody came\nand more")

    with pytest.raises(MeasuringError, match=r"process 1 does not join its group: DEAD.* came$"):
        _joining(load, initialize).join_group(_member(1), 1)
