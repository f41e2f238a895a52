"""One answer of a group: what its processes agree on, what is summed, and where they disagree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.driver.group import merged
from busbw.model.launch import Failure, LaunchId, Run
from busbw.model.machine import Probe
from busbw.model.training import Role
from busbw.model.words import FailureKind
from tests import build

LAUNCH = LaunchId.parse("1.jax")
ROLES = (Role(), Role(index=1))


def _merged(*answers: object) -> object:
    return merged(dict(zip(ROLES, answers, strict=True)), LAUNCH)  # type: ignore[arg-type]


def test_runs_that_agree_are_one_with_the_values_of_all_and_the_largest_memory() -> None:
    one = build.run(1e-3, launch="1.jax.worker0")
    one = replace(one, values_checked=8, peak_memory_bytes=100, compile_s=1.0)
    other = replace(one, launch=LaunchId.parse("1.jax.worker1"), peak_memory_bytes=300)
    found = _merged(one, replace(other, compile_s=2.0))
    assert isinstance(found, Run)
    assert (found.launch, found.values_checked) == (LAUNCH, 16)
    assert (found.peak_memory_bytes, found.compile_s) == (300, 2.0)
    assert found.samples_s == one.samples_s


def test_memory_that_no_process_knows_stays_unknown() -> None:
    one = replace(build.run(1e-3), peak_memory_bytes=None)
    found = _merged(one, one)
    assert isinstance(found, Run)
    assert found.peak_memory_bytes is None


@pytest.mark.parametrize("name", ["samples_s", "iterations", "clock"])
def test_runs_that_differ_in_what_all_measured_are_a_failure(name: str) -> None:
    other = {"samples_s": (5.0,), "iterations": 77, "clock": "device"}
    one = build.run(1e-3)
    found = _merged(one, replace(one, **{name: other[name]}))  # type: ignore[arg-type]
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.CRASHED
    assert found.message == f"the processes disagree on {name}"
    assert found.launch == LAUNCH


def test_a_failure_of_all_is_the_group_s() -> None:
    found = _merged(build.out_of_memory(), build.out_of_memory())
    assert isinstance(found, Failure)
    assert (found.kind, found.launch) == (FailureKind.OUT_OF_MEMORY, LAUNCH)


def test_probes_are_one_with_the_most_that_a_process_takes() -> None:
    one = replace(build.probe(build.device_set()), least_memory_bytes=5)
    found = _merged(one, replace(one, least_memory_bytes=9))
    assert isinstance(found, Probe)
    assert found.least_memory_bytes == 9


def test_probes_of_other_versions_are_no_single_stack() -> None:
    one = replace(build.probe(build.device_set()), versions={"jax": "0.10.2"}, hosts=("a",))
    differs = _merged(one, replace(one, versions={"jax": "0.10.1"}, hosts=("b",)))
    assert isinstance(differs, Failure)
    assert differs.kind is FailureKind.WRONG_WORLD
    assert differs.message == "process 1 (b) has jax 0.10.1, process 0 (a) jax 0.10.2"


def test_probes_of_other_devices_are_no_single_stack() -> None:
    one = build.probe(build.device_set())
    differs = _merged(one, build.probe(build.device_set(cores=64)))
    assert isinstance(differs, Failure)
    assert differs.kind is FailureKind.WRONG_WORLD
    assert "of 64 cores" in differs.message


def test_confirmations_must_be_the_same() -> None:
    assert _merged(True, True) is True
    assert _merged(None, None) is None
    assert isinstance(_merged(True, False), Failure)
