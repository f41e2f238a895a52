"""The topologies of a family, and releases of libtpu."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.extensions.compiled import compilers
from busbw.session.errors import UsageError
from tests.helpers.wheels import use_index, wheel


@pytest.mark.slow
def test_a_release_of_libtpu_is_downloaded_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    wheel(index, "libtpu", "0.0.42", files={"libtpu/libtpu.so": ""})
    use_index(monkeypatch, index)
    library = tmp_path / "libtpu" / "0.0.42" / "libtpu" / "libtpu.so"
    assert compilers.download_libtpu("0.0.42", tmp_path) == library
    monkeypatch.setenv("PATH", "")
    assert compilers.download_libtpu("0.0.42", tmp_path) == library
    with pytest.raises(UsageError, match=r"^--libtpu=0\.0\.43: uv"):
        compilers.download_libtpu("0.0.43", tmp_path)
