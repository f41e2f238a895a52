"""The scripted compiler: what it writes is read and proved as any other program."""

from __future__ import annotations

import pytest

from busbw.collectives import COLLECTIVES
from busbw.hardware.topologies import topology_of
from busbw.model.case import Case
from busbw.model.launch import Compiled, LaunchId
from busbw.model.machine import Topology
from busbw.worker.backends.fake.compiler import FakeCompiler
from busbw.worker.compile import CompileSession
from tests import build

V5E = topology_of("v5e:2x4")
H100 = topology_of("h100:8")


def _case(name: str, clock: str, **changes: str) -> Case:
    asked = COLLECTIVES[name]
    return build.case(
        ranks=8,
        framework="fake",
        strategy="fake",
        protocol=f"{clock}/fake",
        collective=name,
        placement=asked.placements[0],
        reduce_op="sum" if asked.reduce_ops else "none",
        **changes,
    )


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("clock", ["device", "dispatch"])
@pytest.mark.parametrize("topology", [V5E, H100], ids=["v5e", "h100"])
def test_every_collective_is_written_so_that_it_can_be_proved(
    name: str, clock: str, topology: Topology
) -> None:
    bench = CompileSession(compiler=FakeCompiler(), launch=LaunchId.parse("1"))
    found = bench.compile(_case(name, clock), topology)
    assert isinstance(found, Compiled), found
    assert found.collectives == {COLLECTIVES[name].hlo: 1}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_along_an_axis_the_groups_are_the_axis_s(name: str) -> None:
    bench = CompileSession(compiler=FakeCompiler(), launch=LaunchId.parse("1"))
    found = bench.compile(_case(name, "device", mesh="2x4", axes="y"), V5E)
    assert isinstance(found, Compiled), found
    assert found.groups == "2x4"
