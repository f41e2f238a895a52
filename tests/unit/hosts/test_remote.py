"""What runs first on a host that ssh reaches, and the agent over stdin and stdout."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib

import pytest

from busbw.hosts import remote
from busbw.hosts.handshake import JoinError
from busbw.hosts.serve import own_address

GIVEN: dict[str, object] = {"files": {}, "environment": {}}


def first(stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """The program that ssh starts, with this on stdin."""
    command = [sys.executable, "-I", "-c", remote.FIRST]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def test_modules_are_found_in_texts_and_nothing_else_is() -> None:
    texts = {"a/__init__.py": "", "a/b.py": "from . import c\nfound = c.here", "a/c.py": "here = 7"}
    program = (
        "import sys\nfrom busbw.hosts.remote import Sources\n"
        f"sys.meta_path.insert(0, Sources({texts!r}))\nimport a.b\nprint(a.b.found, a.__path__)\n"
        "try:\n    import a.d\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["7 []", "No module named 'a.d'"]


def test_a_session_that_ends_too_early_is_said() -> None:
    packed = remote.pack(GIVEN)
    done = first(packed[:-1])
    assert done.returncode == 1
    assert b"the session ended before it had sent all that an agent needs" in done.stderr


def test_nothing_after_what_is_sent_first_is_read() -> None:
    text = "import os\nprint(os.read(0, 99).decode())"
    done = first(json.dumps(text).encode() + b"\nwhat follows")
    assert done.stdout == b"what follows\n"


def test_a_python_that_is_too_old_says_so() -> None:
    text, rest = remote.pack(GIVEN).split(b"\n", 1)
    # The interpreter's own version is not looked at before.
    source = json.loads(text).replace("import sys\n", "import sys\nsys.version_info = (3, 10)\n", 1)
    done = first(json.dumps(source).encode() + b"\n" + rest)
    assert done.stderr == b"Python 3.10 is too old: expected 3.11 or newer\n"
    assert done.returncode == 1


def test_what_is_packed_is_what_was_given() -> None:
    _, count, packed = remote.pack({"rank": 3}).split(b"\n", 2)
    assert int(count) == len(packed)
    assert json.loads(zlib.decompress(packed)) == {"rank": 3}


def test_this_host_s_address_is_the_server_s() -> None:
    assert own_address("10.0.0.9 51000 10.0.0.2 22") == "10.0.0.2"
    assert own_address("fd00::9 51000 fd00::2 22") == "fd00::2"


@pytest.mark.parametrize("connection", ["", "UNKNOWN 65535 UNKNOWN 65535", "10.0.0.9 51000"])
def test_where_sshd_does_not_say_it_nobody_could_connect(connection: str) -> None:
    with pytest.raises(JoinError, match="sshd does not say this host's address"):
        own_address(connection)
