"""A user without a home directory: neither HOME nor an entry of the system names one."""

from __future__ import annotations

import pytest

from tests.helpers.session_folder import WITHOUT_CACHE, Folder
from tests.helpers.sweep import sweep
from tests.helpers.workers import can_unshare

HOMELESS = ("--user", "--map-user=54321", "--map-group=54321")

pytestmark = pytest.mark.skipif(not can_unshare(*HOMELESS), reason="no user namespace can be made")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("option", "exit_code", "message"),
    sweep(
        [
            ("--launches=1", 0, "NOTHING_COMPARED: 1 case measured"),
            pytest.param(
                "--topology=v5e:2x4",
                4,
                "--compile-cache: ~/.cache/busbw: this user has no home directory; ",
                marks=pytest.mark.extension("compiled"),
            ),
            pytest.param(
                "--against=baseline",
                4,
                "--against=baseline: ~/.cache/busbw: this user has no home",
                marks=pytest.mark.extension("stacks"),
            ),
            ("--history=~/history", 4, "--history: ~/history: this user has no home directory; "),
            pytest.param(
                "--hosts=@~/hosts",
                4,
                "--hosts: @~/hosts: ~/hosts: this user has no home directory; ",
                marks=pytest.mark.extension("cluster"),
            ),
        ]
    ),
)
def test_a_missing_home_directory_is_an_error_only_for_options_that_need_the_directory(
    folder: Folder, option: str, exit_code: int, message: str
) -> None:
    folder.environment.delenv("HOME")
    folder.environment.delenv("XDG_CACHE_HOME", raising=False)
    command = folder.command("perf", "--frameworks=fake", "--payloads=1M", *WITHOUT_CACHE, option)
    done = folder.pytester.run("unshare", *HOMELESS, *command)
    text = f"{done.stdout}\n{done.stderr}"
    assert message in text
    assert "Traceback" not in text
    assert done.ret == exit_code
