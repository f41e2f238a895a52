"""The folder of what a time depends on, and device kinds as names of files."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.model.machine import EnvironmentKey, slug


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
def test_a_device_kind_becomes_a_safe_file_name(text: str, name: str) -> None:
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
    ],
)
def test_a_folder_names_everything_that_a_time_depends_on(
    changes: dict[str, Any], folder: str
) -> None:
    key = EnvironmentKey(**{"device_kind": "TPU v5 lite", "ranks": 16, **changes})
    assert folder == key.folder.as_posix()
