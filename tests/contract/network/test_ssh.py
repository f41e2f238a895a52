"""--hosts with real sshd: what runs on the hosts of a network, and what ends with the session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.network.network import Network
from tests.contract.network.sessions import Place
from tests.contract.network.sshd import Ssh
from tests.helpers.workers import wait_until, write_program

pytestmark = pytest.mark.framework("jax")

BOTH = "--hosts=host0,host1"
PYTHON = f"--host-python={sys.executable}"
FAKE = ("--frameworks=fake", "--payloads=1K", "--launches=1")


def test_jax_measures_15_payloads_on_two_hosts_that_ssh_reaches(two: Network, place: Place) -> None:
    ran = place.ran(
        place.begin(BOTH, PYTHON, "--frameworks=jax", "--payloads=1K:16M", "--launches=1")
    )
    assert ran.exit_code == 0, ran.text
    assert set(ran.outcomes.values()) == {"NO_BASELINE"}
    assert len(ran.outcomes) == 15
    assert ran.hosts == 2
    assert two.runs_only("sshd")
    assert place.left() == []


def test_a_user_program_is_compiled_and_measured_on_two_hosts_that_ssh_reaches(
    two: Network, place: Place
) -> None:
    step = Path(__file__).parents[2] / "unit" / "extensions" / "program" / "steps.py"
    options = ("--frameworks=jax", "--launches=1", f"--program={step}:data_parallel")
    ran = place.ran(place.begin(BOTH, PYTHON, *options))
    assert ran.exit_code == 0, ran.text
    assert "communication of steps-data_parallel: " in ran.text
    assert ran.hosts == 2
    assert two.runs_only("sshd")


def test_busbw_does_not_have_to_be_installed_on_hosts_that_ssh_reaches(
    two: Network, place: Place, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    ran = place.ran(place.begin(BOTH, f"--host-python={bare}/bin/python", *FAKE))
    assert ran.exit_code == 0, ran.text
    assert two.runs_only("sshd")


def test_a_framework_that_is_missing_on_one_host_is_a_usage_error_that_names_the_host(
    two: Network, place: Place, tmp_path: Path
) -> None:
    bare, either = tmp_path / "bare", tmp_path / "either"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    choice = f'[ "$(hostname)" = host1 ] && exec {bare}/bin/python "$@"'
    write_program(either, f'#!/bin/sh\n{choice}\nexec {sys.executable} "$@"\n')
    options = ("--frameworks=jax", "--payloads=1K", "--launches=1")
    ran = place.ran(place.begin(BOTH, f"--host-python={either}", *options))
    assert ran.exit_code == 4
    assert "worker 1 on host1: " in ran.text and "No module named 'jax'" in ran.text, ran.text
    assert two.runs_only("sshd")


def test_a_client_key_that_the_ssh_server_does_not_accept_is_a_usage_error(
    two: Network, place: Place, reached: Ssh
) -> None:
    other = reached.folder / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    other.rename(reached.folder / "client_key")
    ran = place.ran(place.begin(BOTH, PYTHON, *FAKE))
    assert ran.exit_code == 4
    assert "Permission denied (publickey)" in ran.text
    assert two.runs_only("sshd")


def test_a_changed_host_key_is_a_usage_error(two: Network, place: Place, reached: Ssh) -> None:
    other = reached.folder / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    known_hosts = reached.folder / "known_hosts"
    key = " ".join(other.with_suffix(".pub").read_text().split()[:2])
    known_hosts.write_text(
        "".join(f"{x.split()[0]} {key}\n" for x in known_hosts.read_text().splitlines())
    )
    ran = place.ran(place.begin(BOTH, PYTHON, *FAKE))
    assert ran.exit_code == 4
    assert "Host key verification failed" in ran.text, ran.text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_session_that_a_signal_ends_leaves_no_process_on_any_host(
    two: Network, place: Place, number: signal.Signals
) -> None:
    session = place.begin(BOTH, PYTHON, "--frameworks=jax", "--payloads=1K:16M")
    assert wait_until(lambda: "busbw: round 1/3" in place.text, 60)
    os.kill(session.pid, number)
    assert session.wait(30) != 0
    assert wait_until(lambda: two.runs_only("sshd"), 15)


@pytest.mark.parametrize(
    ("on", "words"), [(0, ("ssh", "host1")), (1, ("-I", "-u", "-c"))], ids=["ssh", "host"]
)
def test_only_one_case_fails_if_an_ssh_process_or_a_host_process_is_killed(
    two: Network, place: Place, on: int, words: tuple[str, ...]
) -> None:
    options = (BOTH, PYTHON, "--frameworks=jax", "--payloads=1M,2M,4M", "--launches=1")
    session = place.begin(*options, "--time-budget=60")
    assert wait_until(lambda: "busbw: round 1/1" in place.text, 60)
    (process,) = two.hosts[on].processes(*words)
    os.kill(process, signal.SIGKILL)
    ran = place.ran(session)
    assert ran.exit_code == 1, ran.text
    assert sorted(ran.outcomes.values()) == ["FAILED", "NO_BASELINE", "NO_BASELINE"]
    assert two.runs_only("sshd")
