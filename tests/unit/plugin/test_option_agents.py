"""--agents, --listen, --secret-file, --agents-wait: who starts processes, and who may not."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from busbw.model.variables import SECRET as VARIABLE
from tests.helpers.agents import HOST, SECRET, agent, ended, say_join
from tests.helpers.session_folder import Folder
from tests.helpers.workers import processes, wait_until

pytestmark = pytest.mark.sessions

TWO = ("--processes=2", "--ranks-per-process=2")


@pytest.fixture
def secret(folder: Folder) -> Path:
    """A file with the secret that its owner alone can read."""
    path = folder.path / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return path


@contextmanager
def agents(*hosts: str) -> Iterator[list[str]]:
    """Agents on hosts of these names, and the options of their session.

    They are started first, as a launcher might do; all have ended well in the end.
    """
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    with ExitStack() as held:
        started = [
            held.enter_context(agent(port, rank, host=host)) for rank, host in enumerate(hosts)
        ]
        yield [f"--agents={len(hosts)}", f"--listen={HOST}:{port}"]
        assert [ended(one) for one in started] == [(0, "")] * len(hosts)


def test_local_agents_measure_what_is_measured_without_them(folder: Folder) -> None:
    with_agents = folder.run("--agents=local", *TWO, exit_code=0).case()
    without = folder.run(*TWO, exit_code=0).case()
    assert with_agents["case"] == without["case"]
    assert with_agents["now"] == without["now"]
    assert not folder.left_over()


@pytest.mark.exhaustive
def test_one_process_may_have_an_agent_too(folder: Folder) -> None:
    folder.run("--agents=local", exit_code=0)
    assert not folder.left_over()


def test_agents_of_two_hosts_measure_together(folder: Folder, secret: Path) -> None:
    with agents("one", "two") as options:
        ran = folder.run(*options, f"--secret-file={secret}", *TWO, exit_code=0)
    key = ran.document["environment"]["key"]
    assert (key["hosts"], key["processes"], key["ranks"]) == (2, 2, 4)
    assert "listening for 2 agents: on each host" in ran.text
    assert SECRET.decode() not in ran.text
    assert not folder.left_over()


@pytest.mark.exhaustive
def test_the_secret_may_be_in_the_environment(folder: Folder) -> None:
    folder.environment.setenv(VARIABLE, SECRET.decode())
    with agents("one") as options:
        folder.run(*options, exit_code=0)


@pytest.mark.parametrize("options", [(), ("--agents=local",)])
def test_nothing_that_is_started_inherits_a_secret_of_the_environment(
    folder: Folder, options: tuple[str, ...]
) -> None:
    """Not even git, which pytest-benchmark starts before any conftest.py is read."""
    by_git, by_conftest, programs = (folder.path / name for name in ("git", "conftest", "programs"))
    programs.mkdir()
    (programs / "git").write_text(f'#!/bin/sh\nenv >> "{by_git}"\nexit 1\n')
    (programs / "git").chmod(0o755)
    folder.environment.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    folder.environment.setenv(VARIABLE, SECRET.decode())
    with (folder.path / "conftest.py").open("a") as conftest:
        conftest.write(
            f"import os\n\n\ndef pytest_configure():\n    os.system('env >> {by_conftest}')\n"
        )
    folder.run("-p", "busbw.plugin", *options, exit_code=0)
    assert VARIABLE not in by_git.read_text()
    assert VARIABLE not in by_conftest.read_text()
    # Where only a conftest.py names the plugin it is out once that is read.
    by_conftest.unlink()
    folder.run(*options, exit_code=0)
    assert VARIABLE not in by_conftest.read_text()


def test_without_a_secret_it_is_a_usage_error(folder: Folder) -> None:
    folder.environment.delenv(VARIABLE, raising=False)
    ran = folder.run("--agents=1", exit_code=4)
    assert "there is no secret; accepted is one in the file that" in ran.sentence


def test_a_secret_that_others_can_read_is_refused(folder: Folder, secret: Path) -> None:
    secret.chmod(0o644)
    ran = folder.run("--agents=1", f"--secret-file={secret}", exit_code=4)
    assert f"{secret} has mode 644, others may read it" in ran.sentence
    assert ran.sentence.endswith(f"accepted is a file of its owner alone: chmod 600 {secret}")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "0:0", ":0", "[::ffff:0.0.0.0]:0"])
def test_no_session_listens_on_every_network(folder: Folder, secret: Path, address: str) -> None:
    options = ("--agents=1", f"--secret-file={secret}", f"--listen={address}")
    ran = folder.run(*options, exit_code=4)
    assert f"--listen: '{address}': every network of this host could connect" in ran.sentence


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("here", "accepted is HOST:PORT"),
        ("127.0.0.1:x", "accepted is HOST:PORT"),
        ("127.0.0.1:70000", "accepted is HOST:PORT"),
        ("no.such.host.invalid:0", "there is no host 'no.such.host.invalid'"),
        ("192.0.2.1:0", "Cannot assign requested address"),
    ],
)
def test_an_address_that_is_none_of_this_host_is_a_usage_error(
    folder: Folder, secret: Path, address: str, why: str
) -> None:
    options = ("--agents=1", f"--secret-file={secret}", f"--listen={address}")
    assert why in folder.run(*options, exit_code=4).sentence


def test_agents_that_do_not_join_are_named(folder: Folder, secret: Path) -> None:
    options = ("--agents=2", f"--secret-file={secret}", "--agents-wait=0.1", *TWO)
    ran = folder.run(*options, exit_code=4)
    assert "of 2 agents ranks 0, 1 did not join within 0.1 s; did you start" in ran.sentence


@pytest.mark.exhaustive
def test_a_host_with_another_python_is_incomparable_before_anything_is_measured(
    folder: Folder, secret: Path
) -> None:
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    begun = folder.start("--agents=1", f"--listen={HOST}:{port}", f"--secret-file={secret}")
    assert wait_until(lambda: "listening for 1 agent" in folder.output, 60)
    with socket.create_connection((HOST, port)) as sock:
        say_join(sock)
        assert begun.wait(60) == 1
    assert "unknown (rank 0) has Python 3, this session 3." in folder.output
    assert "INCOMPARABLE" in folder.output
    assert "busbw: pass" not in folder.output


def is_measuring(folder: Folder) -> bool:
    """Whether workers have come to the case that hangs."""
    logs = folder.temporary.rglob("*.log")
    return any("the script says hang" in path.read_text() for path in logs)


def test_a_host_that_is_gone_for_good_ends_the_session_red_with_what_it_has(
    folder: Folder, secret: Path
) -> None:
    folder.script(cases=[{"payload_bytes": 2048, "then": "hang"}])
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    options = (f"--listen={HOST}:{port}", f"--secret-file={secret}", "--payloads=1K:2K")
    with agent(port, 0, host="one"), agent(port, 1, host="two") as two:
        begun = folder.start("--agents=2", *options, *TWO, "--launches=2")
        assert wait_until(lambda: is_measuring(folder), 60)
        two.terminate()
        assert begun.wait(60) == 1
    assert "the agent on two (rank 1) is gone" in folder.output
    assert "NO_VERDICT" in folder.output
    assert wait_until(lambda: not processes(folder.temporary), 20)


@pytest.mark.exhaustive
def test_ctrl_c_leaves_no_agent_and_no_worker(folder: Folder) -> None:
    folder.script(cases=[{"then": "hang"}])
    begun = folder.start("--agents=local", *TWO)
    assert wait_until(lambda: is_measuring(folder), 60)
    begun.send_signal(signal.SIGINT)
    assert begun.wait(60) == 2
    assert wait_until(lambda: not processes(folder.temporary), 20)


def test_kill_9_of_the_session_leaves_no_agent_and_no_worker(folder: Folder) -> None:
    folder.script(cases=[{"then": "hang"}])
    begun = folder.start("--agents=local", *TWO)
    assert wait_until(lambda: is_measuring(folder), 60)
    begun.kill()
    begun.wait(60)
    assert wait_until(lambda: not processes(folder.temporary), 20)
    # The next session removes the folders.
    folder.script()
    folder.run(exit_code=0)
