"""Installing what is tried, and running it: what is missing is said, and a server's end, too."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from . import debian
from .namespaces import HostError
from .network import Network


def test_nothing_is_installed_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    debian.install()


def test_who_may_not_install_is_told_what_is_missing_and_what_root_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if name == "srun" else name)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match=r"not installed: slurm-wlm; as root .* apt-get install"):
        debian.install()


def test_a_server_that_ends_at_once_is_an_error_with_its_log(two: Network, tmp_path: Path) -> None:
    command = ["sh", "-c", "echo no such key >&2; exit 4"]
    server = debian.server(two.hosts[0], command, tmp_path / "log", lambda: False)
    with pytest.raises(HostError, match="sh ended with 4: no such key"), server:
        pass


def test_a_server_is_ended_with_its_test(two: Network, tmp_path: Path) -> None:
    with debian.server(two.hosts[0], ["sleep", "60"], tmp_path / "log", lambda: True) as process:
        assert two.hosts[0].processes() == [process.pid]
    assert two.hosts[0].processes() == []
