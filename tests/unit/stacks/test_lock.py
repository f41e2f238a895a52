"""A lock names packages by hashes, and nothing that this house would follow elsewhere."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from packaging import pylock
from packaging.specifiers import SpecifierSet

from busbw import wire
from busbw.model.machine import EnvironmentKey
from busbw.stacks import lock as locks
from busbw.stacks.lock import Lock, Package, StackError

KEY = EnvironmentKey(device_kind="TPU v5 lite", ranks=4)
PACKAGE = Package(
    name="ml-dtypes",
    version="0.6.0",
    url="https://index/ml_dtypes-0.6.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    sha256="6c" * 32,
    record="5" * 64,
)
LOCK = Lock(
    framework="jax",
    python="3.11.7",
    platform="linux-x86_64",
    date="2026-01-31",
    flags={"XLA_FLAGS": "--xla_one=1"},
    packages=(
        Package(
            name="jax",
            version="0.10.2",
            url="https://index/jax-0.10.2-py3-none-any.whl",
            sha256="7" * 64,
            record="8" * 64,
        ),
        PACKAGE,
    ),
)


URL = PACKAGE.url


def _changed(old: str, new: str) -> bytes:
    assert LOCK.text.count(old) == 1, old
    return LOCK.text.replace(old, new).encode()


def _more(line: str) -> bytes:
    """With a line more of the last package."""
    return f"{LOCK.text}{line}\n".encode()


def test_a_lock_is_read_as_it_was_written_four_lines_for_each_package() -> None:
    assert locks.parsed(LOCK.text.encode()) == LOCK
    assert LOCK.text.partition("[[packages]]")[2].count("\n") == 11
    odd = replace(LOCK, flags={"XLA_FLAGS": '--a="b\\" \N{SNOWMAN}', "NCCL_ALGO": "\x7f\n"})
    read = locks.parsed(odd.text.encode())
    assert (read.digest, read.flags["XLA_FLAGS"]) == (odd.digest, odd.flags["XLA_FLAGS"])


def test_it_is_one_of_the_standard() -> None:
    found = pylock.Pylock.from_dict(tomllib.loads(LOCK.text))
    assert found.requires_python == SpecifierSet("==3.11.*")
    (ours,) = [one for one in found.packages if one.name == "ml-dtypes"]
    assert ours.wheels is not None
    assert (ours.wheels[0].url, ours.wheels[0].hashes) == (URL, {"sha256": "6c" * 32})
    assert pylock.is_valid_pylock_path(locks.path_of(Path(), KEY, "jax"))


def test_an_address_has_no_password_and_nothing_that_could_be_one() -> None:
    given = "https://me:hunter2@index.example:8080/a/jax-1-py3-none-any.whl?token=x#sha256=y"
    assert locks.public_url(given) == "https://index.example:8080/a/jax-1-py3-none-any.whl"
    assert (
        locks.public_url("file:///a/jax-1-py3-none-any.whl") == "file:///a/jax-1-py3-none-any.whl"
    )


def test_installers_read_a_package_with_its_hash() -> None:
    assert PACKAGE.requirement == f"ml-dtypes==0.6.0 --hash=sha256:{'6c' * 32}\n"


def test_all_but_the_date_makes_it_another_stack() -> None:
    assert replace(LOCK, date="2026-02-01").digest == LOCK.digest
    others = [
        replace(LOCK, flags={}),
        replace(LOCK, python="3.11.8"),
        replace(LOCK, packages=(PACKAGE,)),
        # Another wheel of the same version and name, or one that brings other files.
        *(
            replace(LOCK, packages=(replace(one, **{name: "e" * 64}), *rest))
            for one, *rest in [LOCK.packages]
            for name in ("sha256", "record")
        ),
    ]
    assert len({LOCK.digest, *(one.digest for one in others)}) == 6


def test_it_is_beside_the_baselines_of_its_framework(tmp_path: Path) -> None:
    path = locks.path_of(tmp_path, KEY, "jax")
    assert path == tmp_path / "tpu-v5-lite" / "4r" / "pylock.jax.toml"
    path.parent.mkdir(parents=True)
    path.write_text(LOCK.text)
    assert locks.read(path) == LOCK
    other = path.rename(path.with_name("pylock.tensorflow.toml"))
    with pytest.raises(StackError, match=r"framework: expected tensorflow, .* got 'jax'"):
        locks.read(other)
    with pytest.raises(StackError, match=r"pylock\.jax\.toml: No such file"):
        locks.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", "^lock: Missing required value in 'lock-version'|^lock: "),
        (b"\xff", "^lock: 'utf-8' codec can't decode"),
        (b"a = " + b"[" * 10_000, "^lock: "),
        (_changed('"1.0"', '"2.0"'), "^lock: pylock version 2.0 is not supported"),
        (
            _changed("[tool.busbw]", "[tool.other]"),
            r"^lock\.tool\.busbw: expected what busbw locks",
        ),
        (_more('index = "https://evil.example"'), r"lock\.packages\[1\]\.index: unknown key; acc"),
        (_more("marker = \"python_version > '3'\""), r"\[1\]\.marker: unknown key; accepted are"),
        (
            _more('sdist = { url = "x", hashes = { sha256 = "y" } }'),
            "^lock: Invalid sdist filename",
        ),
        (_more('editable = "."'), r"\[1\]\.editable: unknown key; accepted are name, version"),
        (_more("dependencies = []"), r"\[1\]\.dependencies: unknown key"),
        (
            _changed('"busbw"', '"x"\nextras = ["a"]'),
            r"lock\.created-by: expected 'busbw', got 'x'",
        ),
        (_changed('"0.6.0"', '"0.6.0 @ https://evil.example"'), "^lock: Invalid version: "),
        (_changed('"0.6.0"', '"0.6.0\\n"'), r"\.version: expected '0\.6\.0', got '0\.6\.0\\n'"),
        (_changed('"0.6.0"', '" 0.6.0"'), r"\.version: expected '0\.6\.0', got ' 0\.6\.0'"),
        (
            _changed('"0.6.0"', '"0.6.0\N{NO-BREAK SPACE}"'),
            "^lock: Invalid version|version: expected",
        ),
        (_changed('"ml-dtypes"', '"ml-dtypes --index-url=x"'), "^lock: Name .* is not normalized"),
        (_changed('"ml-dtypes"', '"ML_dtypes"'), "^lock: Name 'ML_dtypes' is not normalized"),
        (_changed("6c" * 32, "6c" * 31), r"lock\.packages\[1\]: sha256: expected 64 hexadecimal"),
        (_changed('sha256 = "' + "6c" * 32, 'sha512 = "'), r"\[1\]: sha256: expected 64 hexadec"),
        (_changed("5" * 64, "5"), r"\[1\]: record: expected 64 hexadecimal digits, got '5'"),
        (_changed(f'"{"5" * 64}"', "5"), r"lock\.packages\[1\]\.record: expected a string"),
        (
            _changed(URL, "https://index/numpy-0.6.0-py3-none-any.whl"),
            "^lock: Name in 'numpy-0.6.0",
        ),
        (
            _changed(URL, "https://index/ml_dtypes-0.5.0-py3-none-any.whl"),
            "^lock: Version in 'ml_dt",
        ),
        (_changed(URL, "https://index/ml_dtypes-0.6.0.tar.gz"), "^lock: Invalid wheel filename"),
        (_changed(URL, "..%2Fml_dtypes-0.6.0-py3-none-any.whl"), "^lock: Invalid wheel filename"),
        (
            _changed(URL, "https://i/ml_dtypes-0.6.0-1%2F..%2F..%2Fx-py3-none-any.whl"),
            r"\[1\]: url: expected that of a wheel|Invalid wheel filename",
        ),
        (
            _changed(f'url = "{URL}"', 'path = "x-1-py3-none-any.whl"'),
            "^lock: Name in|url: expected",
        ),
        (
            LOCK.text.partition("[[packages]]")[0]
            .replace("[tool", "packages = []\n[tool")
            .encode(),
            r"^lock\.packages: expected one at least",
        ),
        (_changed('name = "ml-dtypes"', 'name = "jax"'), "^lock: Name in"),
        (
            _changed('"3.11.7"', '"3.11"'),
            r"lock\.python: expected a version such as 3\.12\.4, got '3",
        ),
        (
            _changed('"==3.11.*"', '"==3.12.*"'),
            r"lock\.requires-python: expected '==3\.11\.\*', got",
        ),
        (
            _changed('"linux-x86_64"', '"../x"'),
            r"lock\.platform: expected a platform such as linux-x",
        ),
        (_changed('"2026-01-31"', '"yesterday"'), r"lock\.date: "),
        (_changed("XLA_FLAGS", "LD_PRELOAD"), r"lock\.flags\.LD_PRELOAD: no option of a stack"),
        (_changed("[tool.busbw]", "[tool.busbw]\npackages = []"), r"busbw\.packages: unknown key"),
        (
            _changed("[tool.busbw]", "[tool.busbw]\nmore = 1"),
            r"lock\.more: unknown key; accepted are",
        ),
        (_changed("0-cp311-cp", "0-1%1b%5b31m-cp311-cp"), r"url: expected that of a wheel, got 'h"),
        (_changed("0-cp311-cp", "0-1%00-cp311-cp"), r"url: expected that of a wheel, got 'h"),
    ],
)
def test_what_no_session_locks_is_refused_with_its_location(content: bytes, message: str) -> None:
    with pytest.raises(wire.WireError, match=message):
        locks.parsed(content)


def test_comments_and_other_ends_of_lines_are_read() -> None:
    text = f"# Ours. All of it.\n{LOCK.text}"
    assert locks.parsed(text.replace("\n", "\r\n").encode()) == LOCK


def test_packages_are_in_order() -> None:
    with pytest.raises(wire.WireError, match="each name once, in order"):
        locks.parsed(replace(LOCK, packages=LOCK.packages[::-1]).text.encode())
