"""Sessions of two users measure one after the other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.session_folder import FAKE, ROOT
from tests.helpers.workers import wait_until

pytestmark = [
    pytest.mark.skipif(
        os.getuid() != 0 or shutil.which("setpriv") is None,
        reason="only root with setpriv can start sessions of other users",
    ),
    pytest.mark.sessions,
]
USERS = (65533, 65534)
# These users may read what root has installed in its home, and write to no file of root.
AS_USER = (
    *("setpriv", "--regid=65534", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder like /tmp with a folder of each user in it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o1777)
        for user in USERS:
            os.mkdir(f"{name}/{user}")
            os.chown(f"{name}/{user}", user, user)
        yield Path(name)


def start(shared: Path, user: int, *options: str, **script: object) -> subprocess.Popen[str]:
    folder = shared / str(user)
    return subprocess.Popen(
        [*AS_USER, f"--reuid={user}", sys.executable, "-m", "busbw", "run", *FAKE[1:], *options],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "BUSBW_MACHINE": str(shared / "machine"),
            "BUSBW_FAKE": json.dumps(script),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_session_waits_for_the_session_of_another_user_and_names_its_pid(shared: Path) -> None:
    first = start(shared, USERS[0], cases=[{"then": "hang"}])
    assert wait_until(lambda: any(path.stat().st_size for path in shared.glob("*.lock")))
    second = start(shared, USERS[1], "--device-wait=0.3")
    text, _ = second.communicate(timeout=60)
    assert second.returncode == 4, text
    assert "another session has been measuring on this machine for 0.3 s" in text
    assert f"(pid {first.pid}, started " in text
    first.kill()
    first.communicate(timeout=60)
