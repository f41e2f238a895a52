"""Which hosts a session has, and which variables its workers get there."""

from __future__ import annotations

import time

import pytest

from busbw.extensions.cluster.options import parse_variables
from busbw.extensions.cluster.settings import forwarded as forwarded_of
from busbw.extensions.cluster.settings import parse_hosts


@pytest.mark.parametrize(
    ("names", "forwarded"),
    [
        ("", {"XLA_FLAGS": "--xla_one=1"}),
        ("none", {}),
        ("CUDA_VISIBLE_DEVICES, NOT_SET", {"CUDA_VISIBLE_DEVICES": "0"}),
    ],
)
def test_only_the_variables_of_the_list_are_forwarded(
    names: str, forwarded: dict[str, str]
) -> None:
    ours = {"XLA_FLAGS": "--xla_one=1", "CUDA_VISIBLE_DEVICES": "0", "PATH": "/bin", "TOKEN": "x"}
    env = parse_variables(names) if names else None
    assert forwarded_of(env, ours) == forwarded


def test_100000_hosts_are_checked_in_one_pass() -> None:
    names = [f"host-{i}" for i in range(100_000)]
    begin_s = time.process_time()
    assert len(parse_hosts(",".join(names))) == len(names)
    with pytest.raises(ValueError, match="expected each host once, got 'host-7' twice"):
        parse_hosts(",".join([*names, "host-7"]))
    assert time.process_time() - begin_s < 10
