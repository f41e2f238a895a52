"""The secret: which one is taken, and which are refused."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from busbw.agent.handshake import SecretError, secret_of

TEXT = "a secret of tests"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that its owner alone can read."""
    path = tmp_path / "secret"
    path.write_text(f"{TEXT}\n")
    path.chmod(0o600)
    return path


def test_a_file_comes_before_the_environment_which_comes_before_stdin(file: Path) -> None:
    stdin = io.StringIO("the secret of stdin\nmore\n")
    of_variable = "the secret of a variable"
    assert secret_of(file, {"BUSBW_SECRET": of_variable}, stdin) == TEXT.encode()
    assert secret_of(None, {"BUSBW_SECRET": of_variable}, stdin) == of_variable.encode()
    assert secret_of(None, {}, stdin) == b"the secret of stdin"


def test_it_is_taken_out_of_the_environment(file: Path) -> None:
    environment = {"BUSBW_SECRET": TEXT, "HOME": "/"}
    secret_of(file, environment)
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777])
def test_a_file_that_others_can_read_or_write_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(SecretError) as refused:
        secret_of(file, {})
    assert str(refused.value) == (
        f"{file} has mode {mode:o}, others may read it; accepted is a file of its owner alone: "
        f"chmod 600 {file}"
    )


def test_what_is_no_file_of_text_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="none: No such file or directory"):
        secret_of(tmp_path / "none", {})
    with pytest.raises(SecretError, match="Is a directory"):
        secret_of(tmp_path, {})
    os.mkfifo(tmp_path / "fifo", 0o600)
    with pytest.raises(SecretError, match="fifo is no file"):
        secret_of(tmp_path / "fifo", {})
    file.write_bytes(b"\xff" * 20)
    with pytest.raises(SecretError, match="secret is no text"):
        secret_of(file, {})


def test_a_short_one_is_refused_and_not_shown(file: Path) -> None:
    file.write_text("hunter2        \n\n\n")
    with pytest.raises(SecretError) as refused:
        secret_of(file, {})
    assert str(refused.value) == f"the secret in {file} is shorter than 16 characters"
    with pytest.raises(SecretError, match="the secret in BUSBW_SECRET is shorter than 16"):
        secret_of(None, {"BUSBW_SECRET": "hunter2"})


def test_without_any_it_says_where_one_is_accepted() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with pytest.raises(SecretError) as refused:
        secret_of(None, {}, Terminal(TEXT))
    assert str(refused.value) == (
        "there is no secret; accepted is one in the file that --secret-file names, or in the "
        "variable BUSBW_SECRET"
    )
