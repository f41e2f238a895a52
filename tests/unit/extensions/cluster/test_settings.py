"""The Python and the variables of workers on the hosts of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from busbw.driver.bundle import Bundle
from busbw.session.command_line import make_options, parse_options


def test_workers_on_hosts_have_the_requested_python_and_only_variables_that_change_the_software(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XLA_FLAGS", "CUDA_VISIBLE_DEVICES", "TOKEN"):
        monkeypatch.setenv(name, "x")
    words = ["--frameworks=fake", "--hosts=a", "--host-python=env A=1 python3"]
    remote: Any = make_options(parse_options(words), tmp_path).remote
    bundle = Bundle()
    transport = remote.make_transport(bundle)
    bundle.remove()
    assert transport._engine.python == "env A=1 python3"
    assert transport._variables == {"XLA_FLAGS": "x"}
