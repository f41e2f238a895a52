"""The topologies of a family, and releases of libtpu."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.extensions.compiled import compilers
from busbw.session.errors import UsageError
from tests.helpers.wheels import use_index, wheel


@pytest.mark.parametrize(
    ("text", "count", "first"),
    [
        ("all", 12, "v2:2x2"),
        ("tpu", 7, "v2:2x2"),
        ("gpu", 5, "a100:8"),
        ("v5e:2x4,tpu", 7, "v5e:2x4"),
    ],
)
def test_a_family_is_one_topology_of_each_chip_and_none_twice(
    text: str, count: int, first: str
) -> None:
    names = [topology.name for topology in compilers.topologies_of(text)]
    assert (len(names), names[0], len(set(names))) == (count, first, count)


@pytest.mark.slow
def test_a_release_of_libtpu_is_downloaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    wheel(index, "libtpu", "0.0.42", files={"libtpu/libtpu.so": ""})
    use_index(monkeypatch, index)
    (release,) = compilers.libtpus_of("0.0.42")
    library = tmp_path / "libtpu" / "0.0.42" / "libtpu" / "libtpu.so"
    assert compilers.library_of(release, tmp_path) == library
    monkeypatch.setenv("PATH", "")
    assert compilers.library_of(release, tmp_path) == library
    (unknown,) = compilers.libtpus_of("0.0.43")
    with pytest.raises(UsageError, match=r"^--libtpu=0\.0\.43: uv"):
        compilers.library_of(unknown, tmp_path)
