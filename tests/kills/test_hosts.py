"""Where a machine can have no hosts, that is said in one sentence, before anything is made."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from kills import __main__ as command
from kills import hosts


def test_without_root_it_is_a_usage_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["kills", "--layout=hosts", "--kills=1"])
    with pytest.raises(SystemExit) as exit_code:
        command.main()
    assert exit_code.value.code == 2
    assert capsys.readouterr().err == "kills: --layout=hosts: network namespaces need root\n"


def test_a_package_of_debian_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Path, "is_char_device", lambda self: True)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if name == "sshd" else name)
    assert hosts.missing() == (
        "not installed: openssh-server (Debian: apt-get install openssh-server)"
    )
