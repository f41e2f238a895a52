"""A session opens no connection to another host unless an option asks for one."""

from __future__ import annotations

import shutil

import pytest

from tests.helpers.session_folder import WITHOUT_CACHE, Folder


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(
    "framework",
    [
        pytest.param("jax", marks=pytest.mark.framework("jax")),
        pytest.param(
            "tensorflow", marks=[pytest.mark.framework("tensorflow"), pytest.mark.exhaustive]
        ),
    ],
)
def test_a_session_without_options_for_other_hosts_opens_no_network_connection(
    folder: Folder, framework: str
) -> None:
    log = folder.path / "connections"
    options = ("perf", f"--frameworks={framework}", "--payloads=1K", "--launches=1", *WITHOUT_CACHE)
    traced = ("strace", "--follow-forks", "--seccomp-bpf", "--trace=connect", f"--output={log}")
    assert folder.pytester.run(*traced, *folder.command(*options)).ret == 0
    calls = log.read_text().splitlines()
    # Every process that ended has a line: without them nothing was traced.
    assert any("+++ exited with 0 +++" in line for line in calls)
    assert not [line for line in calls if "AF_INET" in line]
