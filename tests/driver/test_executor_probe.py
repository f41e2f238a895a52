"""The probe: what there is, or in one line why nobody could say."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from busbw.driver.bundle import Bundle
from busbw.driver.executor import ProbeFailed, probe
from busbw.model.words import Device

from .processes import processes
from .scripts import executor, starter


def test_it_says_what_devices_and_versions_there_are(bundle: Bundle) -> None:
    found = probe(starter(device="tpu", device_kind="TPU v2", ranks=8), executor(bundle))
    (devices,) = found.devices
    assert (devices.device, devices.device_kind, devices.ranks) == (Device.TPU, "TPU v2", 8)
    assert found.versions == {"fake": "1"}
    assert not processes(bundle.path)


def test_a_device_that_is_not_reached_is_missing_with_a_reason(bundle: Bundle) -> None:
    found = probe(replace(starter(), device="tpu"), executor(bundle))
    assert found.devices == ()
    assert found.missing == {"tpu": "not in the script"}


def test_a_worker_that_dies_is_told_with_the_last_line_of_its_log(bundle: Bundle) -> None:
    with pytest.raises(ProbeFailed, match=r"ended with exit code 3 .*: the script says exit"):
        probe(starter(probe="exit"), executor(bundle))
    assert not processes(bundle.path)


def test_a_worker_that_does_not_start_is_told_too(bundle: Bundle) -> None:
    with pytest.raises(ProbeFailed, match=r"^/bin/false: .*exit code 1.*nothing in its log"):
        probe(starter("/bin/false"), executor(bundle))


@pytest.mark.parametrize(
    ("framework", "version", "oldest"),
    [("jax", "0.4.29", "0.4.30"), ("tensorflow", "2.12.1", "2.13")],
)
def test_a_framework_that_is_too_old_is_told_in_one_sentence(
    bundle: Bundle, tmp_path: Path, framework: str, version: str, oldest: str
) -> None:
    (tmp_path / f"{framework}.py").write_text(f"__version__ = {version!r}\n")
    old = replace(starter(), framework=framework, environment={"PYTHONPATH": str(tmp_path)})
    with pytest.raises(ProbeFailed) as told:
        probe(old, executor(bundle))
    said = f"{framework} {version} is too old: the oldest that busbw measures is {oldest}"
    assert str(told.value).endswith(f"looking for devices with {framework}: {said}")
    assert (bundle.log_path(f"probe.{framework}")).read_text().strip() == said


def test_it_has_a_deadline(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("busbw.driver.executor"), "PROBE_TIMEOUT_S", 1.0)
    with pytest.raises(
        ProbeFailed, match=r"did not answer within 1[.\d]* s while looking for devices"
    ):
        probe(starter(probe="hang"), executor(bundle))
    assert not processes(bundle.path)
