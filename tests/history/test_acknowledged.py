"""The file of acknowledged changes, which people write."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.history.files import Acknowledged, HistoryError, acknowledged

WHOLE = """
[[change]]
since = 2026-11-03
case = "jax.all_reduce.*"
machine = "tpu-v5-lite/4r"
reason = "waits for all hosts"

[[change]]
since = "2026-11-04"
reason = "new driver"
"""


def _read(folder: Path, text: str) -> tuple[Acknowledged, ...]:
    (folder / "acknowledged.toml").write_text(text)
    return acknowledged(folder)


def test_a_change_is_of_cases_and_machines_by_pattern_and_of_all_by_default(tmp_path: Path) -> None:
    first, second = _read(tmp_path, WHOLE)
    assert first.is_of("jax.all_reduce.psum.float32.4K", "tpu-v5-lite/4r")
    assert not first.is_of("tensorflow.all_reduce.nccl.float32.4K", "tpu-v5-lite/4r")
    assert not first.is_of("jax.all_reduce.psum.float32.4K", "tpu-v5-lite/8r")
    assert second.is_of("anything", "anywhere") and second.reason == "new driver"
    assert first.began.isoformat() == "2026-11-03T00:00:00+00:00"


def test_without_a_file_nothing_is_acknowledged(tmp_path: Path) -> None:
    assert acknowledged(tmp_path) == () and _read(tmp_path, "") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[change]]\nsince = 2026-11-03\n", "file.change[0].reason: missing"),
        ('[[change]]\nsince = 2026-11-03\nreason = " "\n', "file.change[0].reason: expected why"),
        (
            '[[change]]\nsince = "yesterday"\nreason = "x"\n',
            "file.change[0].since: expected a date",
        ),
        ('[[change]]\nreason = "x"\n', "file.change[0].since: missing"),
        ('[[change]]\nsince = 2026-11-03\nreason = "x"\nwho = "me"\n', "file.change[0]"),
        ("changes = 3\n", "file"),
        ("change = 3\n", "file.change"),
        ("[[change\n", "not TOML"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_says_where(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(HistoryError) as caught:
        _read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "acknowledged.toml"))
    assert message in str(caught.value)


def test_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "acknowledged.toml").mkdir()
    with pytest.raises(HistoryError, match="is a folder"):
        acknowledged(tmp_path)
