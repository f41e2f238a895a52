"""What hosts need of the machine and of Debian: what is missing is said, and a server's end."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.contract.network import debian
from tests.contract.network.namespaces import ASKED, HostError, missing
from tests.contract.network.network import Network


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


@pytest.fixture
def all_there(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that has everything, to take something from."""
    monkeypatch.setenv(ASKED, "1")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Path, "is_char_device", lambda self: True)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    return monkeypatch


def test_nothing_is_missing_on_a_machine_that_has_everything(
    all_there: pytest.MonkeyPatch,
) -> None:
    assert missing() == ""


def test_hosts_that_nobody_asked_for_are_not_made(all_there: pytest.MonkeyPatch) -> None:
    all_there.delenv(ASKED)
    assert missing() == "BUSBW_HOSTS is not set; `tox -e hosts` sets it"


@pytest.mark.parametrize(
    ("holder", "name", "found", "why"),
    [
        (os, "geteuid", 1000, "network namespaces need root"),
        (Path, "is_char_device", False, "there is no /dev/net/tun, which is the cable of a host"),
        (shutil, "which", None, "ip is not installed (Debian: iproute2, util-linux, hostname)"),
    ],
)
def test_what_the_machine_lacks_is_named(
    all_there: pytest.MonkeyPatch, holder: object, name: str, found: object, why: str
) -> None:
    all_there.setattr(holder, name, lambda *of: found)
    assert missing() == why
