"""--hosts and --host-python: hosts that the session reaches through ssh."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.helpers import ssh
from tests.helpers.session_folder import Folder
from tests.helpers.sweep import sweep


@pytest.fixture
def folder(folder: Folder) -> Folder:
    """Return a folder whose sessions call a test program in place of ssh."""
    programs = ssh.written(folder.path / "programs")
    folder.environment.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return folder


PYTHON = f"--host-python={ssh.python()}"


def test_each_host_runs_as_many_processes_as_the_options_request(folder: Folder) -> None:
    ran = folder.run("--hosts=one,two", PYTHON, "--processes=4", exit_code=0)
    key = ran.document["environment"]["key"]
    assert (key["hosts"], key["processes"], key["ranks"]) == (2, 4, 4)
    assert not folder.left_over()


@pytest.mark.parametrize("hosts", sweep(["tpu", "@hosts"]))
def test_the_option_hosts_can_name_the_hosts_of_a_tpu_slice_or_of_a_file(
    folder: Folder, hosts: str
) -> None:
    folder.environment.setenv("TPU_WORKER_HOSTNAMES", "one, two")
    (folder.path / "hosts").write_text("# ours\none\n\n  two  # the second\n")
    ran = folder.run(f"--hosts={hosts}", PYTHON, exit_code=0)
    assert ran.document["environment"]["key"]["hosts"] == 2


@pytest.mark.parametrize(
    ("hosts", "sentence"),
    [
        (
            ["one", ssh.UNREACHED],
            "busbw: unreached: ssh: connect to host unreached port 22: No route to host",
        ),
        (
            ssh.HERE,
            "ERROR: busbw: localhost and 127.0.0.1 are the same machine; expected as many names "
            "for each machine, and one with --hosts",
        ),
    ],
    ids=["unreached", "same"],
)
def test_unreached_hosts_and_two_names_of_the_same_host_are_usage_errors_that_name_the_hosts(
    folder: Folder, hosts: Sequence[str], sentence: str
) -> None:
    ran = folder.run(f"--hosts={','.join(hosts)}", PYTHON, exit_code=4)
    assert ran.sentence.endswith(sentence)
    assert not folder.left_over()


def test_the_option_hosts_without_an_ssh_program_is_a_usage_error(folder: Folder) -> None:
    folder.environment.setenv("PATH", str(folder.path))
    ran = folder.run("--hosts=one", PYTHON, exit_code=4)
    assert ran.sentence.endswith("busbw: one: ssh: No such file or directory")
    assert not folder.left_over()


@pytest.mark.exhaustive
def test_a_session_with_a_regression_over_several_hosts_prints_the_find_slow_command(
    folder: Folder,
) -> None:
    folder.script(latency_s=1e-3)
    folder.run("--hosts=one,two", PYTHON, "--update-baselines", exit_code=0)
    folder.script(latency_s=4e-3)
    ran = folder.run("--hosts=one,two", PYTHON, exit_code=1)
    note = "note: which host or link is slow: busbw find-slow, with --hosts or --cluster as here"
    assert note in ran.text.splitlines()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--hosts=one,,two",), "--hosts: expected hosts that ssh connects to, got ''"),
        (
            ("--hosts=-oProxyCommand=x",),
            "--hosts: expected hosts that ssh connects to, got '-oProxyCommand=x'",
        ),
        (("--hosts=one;true",), "--hosts: expected hosts that ssh connects to, got 'one;true'"),
        (("--hosts=@none",), "--hosts: @none: No such file or directory"),
        (("--hosts=@empty",), "--hosts: @empty: expected names of hosts, got none"),
        (("--hosts=@/dev/zero",), "--hosts: @/dev/zero: is not a regular file"),
        (("--hosts=@binary",), "--hosts: @binary: 'utf-8' codec can't decode"),
        (("--hosts=tpu",), "--hosts: tpu: expected names of hosts, got none"),
        (("--hosts=one,two", "--processes=3"), "--hosts: 2 hosts cannot share --processes=3"),
        (("--host-python=python3",), "--host-python: only with --hosts"),
        (("--hosts=one", "--topology=v5e:2x2"), ": not with --topology, which measures nothing"),
    ],
)
def test_an_invalid_value_of_any_option_about_hosts_is_a_usage_error(
    folder: Folder, options: tuple[str, ...], message: str
) -> None:
    (folder.path / "empty").write_text("# nobody\n")
    (folder.path / "binary").write_bytes(b"\xff")
    assert message in folder.run(*options, exit_code=4).sentence
