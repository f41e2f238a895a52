"""--libtpu: releases of the compiler for TPUs, fetched and held against each other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from busbw.plugin import compilers

from .fake_compiler import compiled, outcomes, script, stored
from .folder import Folder


def test_a_libtpu_that_another_session_fetched_meanwhile_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "libtpu" / "0.0.42" / "libtpu" / "libtpu.so"

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        library.parent.mkdir(parents=True)
        library.touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    (asked,) = compilers.libtpus_of("0.0.42")
    assert compilers.library_of(asked, tmp_path) == library
    assert [path.name for path in (tmp_path / "libtpu").iterdir()] == ["0.0.42"]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("libtpu (0.0.46)\nAvailable versions: 0.0.46, 0.0.42.1\n", "pip finds 0.0.46, 0.0.42.1"),
        ("", "pip finds none: "),
    ],
)
def test_a_question_mark_lists_the_releases_that_pip_finds(
    folder: Folder, made: str, says: str
) -> None:
    pip = folder.path / "site" / "pip"
    pip.mkdir(parents=True)
    (pip / "__init__.py").touch()
    (pip / "__main__.py").write_text(f"print({made!r})\n")
    folder.environment.setenv("PYTHONPATH", str(pip.parent), prepend=os.pathsep)
    ran = compiled(folder, "--topology=v5e:2x4", "--libtpu=?", exit_code=4)
    assert f"--libtpu: {says}" in ran.sentence


@pytest.fixture
def two_releases(folder: Folder) -> tuple[str, ...]:
    """Options for two fake libraries, of releases 1.0 and 2.0."""
    for version in ("1.0", "2.0"):
        package = folder.path / version / "libtpu"
        package.mkdir(parents=True)
        (package / "libtpu.so").touch()
        (folder.path / version / f"libtpu-{version}.dist-info").mkdir()
    return ("--topology=v5e:2x4", "--compile-cache=none", "--libtpu=1.0/libtpu/libtpu.so,2.0")


@pytest.mark.exhaustive
def test_two_releases_are_held_against_each_other(
    folder: Folder, two_releases: tuple[str, ...]
) -> None:
    script(folder, {"release": "libtpu 2.0", "payload_bytes": 1 << 20, "strategy": "FakeTree"})
    ran = compiled(folder, *two_releases, exit_code=1)
    assert outcomes(ran) == {
        "v5e:2x4-libtpu1.0-fake-default-float32-1K": "NO_BASELINE",
        "v5e:2x4-libtpu1.0-fake-default-float32-1M": "NO_BASELINE",
        "v5e:2x4-libtpu2.0-fake-default-float32-1K": "PASS",
        "v5e:2x4-libtpu2.0-fake-default-float32-1M": "CHANGED",
    }
    assert "release by release: libtpu 1.0 -> libtpu 2.0" in ran.text
    assert "    v5e:2x4, libtpu 2.0: 1K: as before" in ran.text
    assert "    v5e:2x4, libtpu 2.0: 1M: strategy: FakeRing -> FakeTree" in ran.text
    compiled(folder, *two_releases, "--accept-compiled-changes", exit_code=0)


@pytest.mark.exhaustive
def test_a_named_library_is_no_way_around_baselines_that_are_required(
    folder: Folder, two_releases: tuple[str, ...]
) -> None:
    """The first release must have them; what it made is all that the second needs."""
    ran = compiled(folder, *two_releases, "--require-baselines", exit_code=1)
    assert "3 failed, 2 passed" in ran.text


@pytest.mark.exhaustive
def test_releases_that_do_the_same_share_a_line(
    folder: Folder, two_releases: tuple[str, ...]
) -> None:
    assert (
        "    v5e:2x4: the same by all of them" in compiled(folder, *two_releases, exit_code=0).text
    )


@pytest.mark.exhaustive
def test_a_release_that_does_not_know_a_chip_is_said_and_no_error(
    folder: Folder, two_releases: tuple[str, ...]
) -> None:
    script(folder, missing={"libtpu 1.0": "what is a v5e?"})
    ran = compiled(folder, *two_releases, exit_code=0)
    assert list(outcomes(ran).values()) == ["SKIPPED"] * 2 + ["NO_BASELINE"] * 2
    assert "busbw compiler: none for v5e:2x4: what is a v5e?" in ran.text


@pytest.mark.exhaustive
def test_a_release_that_knows_the_chip_compiles_what_the_baselines_promise(
    folder: Folder, two_releases: tuple[str, ...]
) -> None:
    stored(folder)
    script(folder, missing={"libtpu 1.0": "what is a v5e?"})
    ran = compiled(folder, *two_releases, exit_code=0)
    assert list(outcomes(ran).values()) == ["SKIPPED"] * 2 + ["PASS"] * 2
