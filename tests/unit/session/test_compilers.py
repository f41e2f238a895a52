"""Which topologies the words for families mean, by the compilers and baselines that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.model.machine import Topology
from busbw.model.words import Device
from busbw.session import compilers


@pytest.fixture(autouse=True)
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither libtpu nor XLA for CUDA is installed."""
    monkeypatch.setattr("sys.path", [])


def _names(text: str, promised: str = "") -> list[str]:
    def has_baselines(topology: Topology) -> bool:
        return topology.device.value == promised

    found = compilers.topologies_of(text, everywhere=False, promised=has_baselines)
    return [one.name for one in found]


def test_without_compilers_and_baselines_there_is_nothing_to_compile_for() -> None:
    with pytest.raises(ValueError, match=r"all: no compiler .* for TPUs: .* for GPUs: "):
        _names("all")
    with pytest.raises(
        ValueError, match=r"gpu: no compiler is installed here; no compiler for GPU"
    ):
        _names("gpu")


def test_what_baselines_promise_is_meant_without_its_compiler() -> None:
    tpus = _names("all", promised="tpu")
    assert tpus[0] == "v2:2x2" and len(tpus) == 7
    assert _names("tpu", promised="tpu") == tpus
    assert len(_names("gpu", promised="gpu")) == 5


def test_a_name_and_its_family_mean_it_once() -> None:
    assert _names("v5e:2x4,tpu", promised="tpu").count("v5e:2x4") == 1


def test_all_takes_every_chip_of_another_interpreter() -> None:
    found = compilers.topologies_of("all", everywhere=True, promised=lambda topology: False)
    assert {one.device for one in found} == {Device.TPU, Device.GPU}


def test_all_takes_the_chips_of_the_compilers_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libtpu").mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert _names("all") == _names("tpu") == _names("all", promised="tpu")
    assert set(_names("all")).isdisjoint(_names("gpu", promised="gpu"))
