"""A lock names packages by hashes and nothing that could lead elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw import wire
from busbw.model.machine import EnvironmentKey
from busbw.stacks import lock as locks
from busbw.stacks.lock import Lock, Package, StackError

PACKAGE = Package(
    name="ml-dtypes",
    version="0.6.0",
    wheel="ml_dtypes-0.6.0-cp311-cp311-manylinux_2_28_x86_64.whl",
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
            wheel="jax-0.10.2-py3-none-any.whl",
            sha256="7" * 64,
            record="8" * 64,
        ),
        PACKAGE,
    ),
)


def _changed(**changes: Any) -> str:
    return json.dumps({**json.loads(LOCK.text), **changes})


def _package(**changes: Any) -> str:
    first, last = json.loads(LOCK.text)["packages"]
    return _changed(packages=[first, {**last, **changes}])


def test_a_lock_is_read_as_it_was_written_a_package_on_each_line() -> None:
    assert locks.parsed(LOCK.text) == LOCK
    assert [json.loads(one.strip(" ,"))["name"] for one in LOCK.text.splitlines()[-4:-2]] == [
        "jax",
        "ml-dtypes",
    ]


def test_installers_read_a_package_with_its_hash() -> None:
    assert PACKAGE.requirement == f"ml-dtypes==0.6.0 --hash=sha256:{'6c' * 32}\n"


def test_all_but_the_date_makes_it_another_stack() -> None:
    assert replace(LOCK, date="2026-02-01").digest == LOCK.digest
    others = [
        replace(LOCK, flags={}),
        replace(LOCK, python="3.11.8"),
        replace(LOCK, packages=(PACKAGE,)),
    ]
    assert len({LOCK.digest, *(one.digest for one in others)}) == 4


def test_it_is_beside_the_baselines_of_its_framework(tmp_path: Path) -> None:
    path = locks.path_of(tmp_path, EnvironmentKey(device_kind="TPU v5 lite", ranks=4), "jax")
    assert path == tmp_path / "tpu-v5-lite" / "4r" / "jax.reference.lock"
    path.parent.mkdir(parents=True)
    path.write_text(LOCK.text)
    assert locks.read(path, "jax") == LOCK
    with pytest.raises(StackError, match=r"framework: expected tensorflow, .* got 'jax'"):
        locks.read(path, "tensorflow")
    with pytest.raises(StackError, match=r"jax\.lock: No such file"):
        locks.read(tmp_path / "jax.lock", "jax")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", r"^lock: expected an object, got \[\]"),
        (_changed(schema=2), r"lock\.schema: this version reads 1, got 2"),
        (_changed(index_url="https://evil.example"), r"lock\.index_url: unknown key; accepted are"),
        (_package(url="https://evil.example/x.whl"), r"lock\.packages\[1\]\.url: unknown key"),
        (_package(version="0.6.0 @ https://evil.example"), r"\[1\]\.version: expected a version"),
        (_package(version="0.6.0\n"), r"\[1\]\.version: expected a version, got '0\.6\.0\\n'"),
        (_package(version=" 0.6.0"), r"\[1\]\.version: expected a version, got ' 0\.6\.0'"),
        (_package(version="0.6.0\N{NO-BREAK SPACE}"), r"\[1\]\.version: expected a version"),
        (_package(name="ml-dtypes --index-url=x"), r"\[1\]\.name: expected a normalized name"),
        (_package(name="ML_dtypes"), r"\[1\]\.name: expected a normalized name such as ml-dtypes"),
        (_package(sha256="6c" * 31), r"\[1\]\.sha256: expected 64 hexadecimal digits"),
        (
            _package(wheel="../ml_dtypes-0.6.0-py3-none-any.whl"),
            r"\[1\]\.wheel: expected the name of a wheel",
        ),
        (_package(wheel="numpy-0.6.0-py3-none-any.whl"), r"expected a wheel of ml-dtypes 0\.6\.0"),
        (_package(wheel="ml_dtypes-0.6.0.tar.gz"), r"\[1\]\.wheel: expected the name of a wheel"),
        (_package(name="jax"), r"expected a wheel of jax"),
        (_changed(packages=[]), r"lock\.packages: expected one at least"),
        (_changed(packages=json.loads(LOCK.text)["packages"][::-1]), r"each name once, in order"),
        (
            _changed(python="3.11"),
            r"lock\.python: expected a version such as 3\.12\.4, got '3\.11'",
        ),
        (_changed(platform="../x"), r"lock\.platform: expected a platform such as linux-x86_64"),
        (_changed(date="yesterday"), r"lock\.date: "),
        (_changed(flags={"LD_PRELOAD": "x"}), r"lock\.flags\.LD_PRELOAD: no option of a stack"),
    ],
)
def test_what_no_session_locks_is_refused_with_its_location(text: str, message: str) -> None:
    with pytest.raises(wire.WireError, match=message):
        locks.parsed(text)
