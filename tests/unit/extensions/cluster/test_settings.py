"""The hosts of a session, and the variables of workers on these hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from busbw.driver.bundle import Bundle
from busbw.extensions.cluster.options import parse_variables
from busbw.extensions.cluster.settings import forwarded_variables
from busbw.session.command_line import parse_options, read_options


@pytest.mark.parametrize(
    ("names", "forwarded"),
    [
        ("", {"XLA_FLAGS": "--xla_one=1"}),
        ("none", {}),
        ("CUDA_VISIBLE_DEVICES, NOT_SET", {"CUDA_VISIBLE_DEVICES": "0"}),
    ],
)
def test_only_the_variables_of_the_option_host_env_are_forwarded_to_hosts(
    names: str, forwarded: dict[str, str]
) -> None:
    ours = {"XLA_FLAGS": "--xla_one=1", "CUDA_VISIBLE_DEVICES": "0", "PATH": "/bin", "TOKEN": "x"}
    env = parse_variables(names) if names else None
    assert forwarded_variables(env, ours) == forwarded


def test_workers_on_hosts_have_the_python_and_the_variables_of_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "1")
    words = ["--frameworks=fake", "--hosts=a", "--host-python=/opt/python", "--host-env=MINE"]
    remote: Any = read_options(parse_options(words), tmp_path).remote
    bundle = Bundle()
    transport = remote.make_transport(bundle)
    bundle.remove()
    assert (transport._engine.python, transport._variables) == ("/opt/python", {"MINE": "1"})
