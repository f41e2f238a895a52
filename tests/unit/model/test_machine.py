"""Device kinds as file names, folders of keys; meshes as text, groups along axes, layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from busbw.model.machine import (
    EnvironmentKey,
    canonical_axes,
    canonical_mesh,
    check_mesh_hosts,
    count_device_groups,
    group_ranks_along_axes,
    mesh_file_name,
    mesh_shape,
    slug,
)
from tests.helpers import build


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("TPU v5 lite", "tpu-v5-lite"),
        ("NVIDIA H200", "nvidia-h200"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "intel-r-xeon-r-cpu-2.20ghz"),
        ("../../etc/passwd", "etc-passwd"),
        ("a/b\\c:d", "a-b-c-d"),
    ],
)
def test_a_device_kind_is_converted_to_a_safe_file_name(text: str, name: str) -> None:
    assert name == slug(text)


@pytest.mark.parametrize(
    ("changes", "folder"),
    [
        ({}, "tpu-v5-lite/16r"),
        ({"cores": 2}, "tpu-v5-lite-2c/16r"),
        ({"mesh": "4x4"}, "tpu-v5-lite/16r-4x4"),
        ({"hosts": 4, "processes": 4}, "tpu-v5-lite/16r-4h4p"),
        ({"mesh": "4x4", "hosts": 2, "processes": 8}, "tpu-v5-lite/16r-4x4-2h8p"),
        ({"processes": 2}, "tpu-v5-lite/16r-1h2p"),
        ({"processes": 2, "shared": True}, "tpu-v5-lite/16r-1h2p-shared"),
    ],
)
def test_the_folder_name_of_a_machine_has_its_numbers_of_cores_and_ranks_and_hosts(
    changes: dict[str, Any], folder: str
) -> None:
    key = EnvironmentKey(**{"device_kind": "TPU v5 lite", "ranks": 16, **changes})
    assert folder == key.folder.as_posix()


HOSTS = "hosts:2,devices:4"


@pytest.mark.parametrize(
    ("mesh", "extents"),
    [("8", (8,)), ("2x4", (2, 4)), ("4x2", (4, 2)), ("2x2x2", (2, 2, 2)), ("1x16x1", (1, 16, 1))],
)
def test_the_mesh_text_2x4_is_read_as_the_extents_2_and_4(
    mesh: str, extents: tuple[int, ...]
) -> None:
    assert mesh_shape(mesh) == extents


@pytest.mark.parametrize(
    ("check", "values", "says"),
    [
        *(
            (mesh_shape, (mesh,), "is not a mesh; expected up to 6 whole")
            for mesh in (
                *("", "x", "2x", "x4", "2X4", "2,4", "0x4", "-2x4", "2x4.0", "2 x 4"),
                "1x1x1x1x1x1x2",
            )
        ),
        *(
            (mesh_shape, (mesh,), "axes slices, hosts, processes, devices, each")
            for mesh in (
                *("hosts:2,hosts:4", "hosts:0,devices:2", "nodes:2"),
                *("hosts:2,4", "hosts:", "hosts:2x4"),
            )
        ),
        *(
            (canonical_axes, (axes, "2x4"), r"is no axis of the mesh 2x4; it has x, y$")
            for axes in ("z", "a", "", "xy", "x,", "x,z")
        ),
        (canonical_axes, ("x", "1x8"), "one rank along these axes of 1x8 is not"),
        (canonical_axes, ("x,z", "1x8x1"), "one rank along these axes of 1x8x1 is not"),
        (check_mesh_hosts, (HOSTS, 1, 1), "has 2 hosts, there are 1"),
        (check_mesh_hosts, (HOSTS, 4, 4), "has 2 hosts, there are 4"),
        (check_mesh_hosts, ("processes:2,devices:4", 2, 4), "has 2 processes, there are 4"),
        (check_mesh_hosts, ("slices:3,devices:8", 4, 4), "has 3 slices, there are 4 hosts"),
    ],
)
def test_the_refusal_of_a_mesh_or_of_axes_shows_what_is_accepted_or_what_the_machine_has(
    check: Callable[..., object], values: tuple[str | int, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        check(*values)


@pytest.mark.parametrize(
    ("axes", "mesh", "names"),
    [
        ("y", "2x4", "y"),
        ("x,y", "2x4", ""),
        ("y,x", "2x4", ""),
        ("z, x", "2x2x2", "xz"),
        ("y,y", "2x4", "y"),
        ("hosts", "slices:2,hosts:2,devices:4", "hosts"),
        ("devices, slices", "slices:2,hosts:2,devices:4", "slices,devices"),
    ],
)
def test_axes_are_sorted_in_the_order_of_the_mesh_without_duplicates(
    axes: str, mesh: str, names: str
) -> None:
    assert canonical_axes(axes, mesh) == names


@pytest.mark.parametrize(
    ("mesh", "axes", "groups"),
    [
        ("2x4", "y", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("2x4", "x", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("4x2", "y", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("4x2", "x", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("2x2x2", "xz", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("2x2x2", "yz", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("2x2x2", "xy", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("2x2x2", "y", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("2x2", "xy", ((0, 1, 2, 3),)),
        (HOSTS, "devices", ((0, 1, 2, 3), (4, 5, 6, 7))),
        (HOSTS, "hosts", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("slices:2,hosts:2,devices:2", "slices,devices", ((0, 1, 4, 5), (2, 3, 6, 7))),
        # Without axes all ranks are a group.
        ("", "", (tuple(range(8)),)),
        ("2x4", "", (tuple(range(8)),)),
    ],
)
def test_consecutive_ranks_are_neighbours_along_the_last_axis_of_a_mesh(
    mesh: str, axes: str, groups: tuple[tuple[int, ...], ...]
) -> None:
    ranks = sum(map(len, groups))
    assert group_ranks_along_axes(mesh, axes, ranks) == groups
    assert build.case(mesh=mesh, axes=axes, ranks=ranks).group_size == len(groups[0])


@pytest.mark.parametrize(
    ("mesh_option", "text", "file_name", "parts"),
    [
        ("2x4", "2x4", "2x4", 1),
        (HOSTS, HOSTS, "hosts2xdevices4", 2),
        ("devices:4, hosts:2", HOSTS, "hosts2xdevices4", 2),
        ("slices:2,hosts:2,devices:4", "slices:2,hosts:2,devices:4", "slices2xhosts2xdevices4", 4),
    ],
)
def test_the_text_of_a_mesh_orders_named_axes_from_the_slowest_network_to_the_fastest(
    mesh_option: str, text: str, file_name: str, parts: int
) -> None:
    assert canonical_mesh(mesh_option) == text
    assert (mesh_file_name(text), count_device_groups(text)) == (file_name, parts)


@pytest.mark.parametrize(
    ("mesh", "hosts", "processes"),
    [
        (HOSTS, 2, 2),
        (HOSTS, 2, 4),
        # On one host each process stands for one.
        (HOSTS, 1, 2),
        ("hosts:2,processes:2,devices:4", 2, 4),
        ("processes:4,devices:4", 1, 4),
        ("slices:2,devices:8", 4, 4),
        ("2x4", 1, 1),
    ],
)
def test_a_mesh_that_fits_the_hosts_and_processes_is_accepted(
    mesh: str, hosts: int, processes: int
) -> None:
    check_mesh_hosts(mesh, hosts, processes)
