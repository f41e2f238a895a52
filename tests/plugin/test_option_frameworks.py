"""--frameworks: those named must be there; by default those installed. None is imported."""

from __future__ import annotations

import pytest

from .folder import Folder

BLOCKED = "import sys\nsys.modules.update({name: None for name in %r})\n"
STUB = "raise AssertionError('pytest must not import a framework')\n"


def blocked(folder: Folder, *names: str) -> tuple[str, str]:
    """Options that make frameworks missing."""
    (folder.path / "blocked.py").write_text(BLOCKED % (names,))
    return ("-p", "blocked")


@pytest.mark.parametrize(("name", "extra"), [("jax", "jax"), ("tensorflow", "tf")])
def test_one_named_and_missing_is_a_usage_error_that_says_how_to_get_it(
    folder: Folder, name: str, extra: str
) -> None:
    ran = folder.run(*blocked(folder, name), f"--frameworks=fake,{name}", exit_code=4)
    assert f"--frameworks: {name} is not installed here" in ran.sentence
    assert f'pip install "busbw[{extra}]"' in ran.sentence
    assert f"--python={name}=PATH" in ran.sentence


def test_nothing_installed_is_a_usage_error(folder: Folder) -> None:
    options = blocked(folder, "jax", "tensorflow")
    ran = folder.pytest("perf", *options, "--collect-only", exit_code=4)
    assert "neither jax nor tensorflow is installed here" in ran.sentence


def test_by_default_those_that_are_installed_are_collected_and_none_imported(
    folder: Folder,
) -> None:
    (folder.path / "jax.py").write_text(STUB)
    options = blocked(folder, "tensorflow")
    ran = folder.pytest("perf", *options, "--collect-only", "--payloads=1K", exit_code=0)
    assert "busbw: jax, 1 payload (" in ran.text
    assert "test_collective[jax-default-float32-1K]" in ran.text
    assert "[tensorflow-" not in ran.text


# A worker imports what bears the name of one.
@pytest.mark.framework
def test_a_framework_that_does_not_start_is_a_usage_error(folder: Folder) -> None:
    (folder.path / "jax.py").write_text(STUB)
    ran = folder.run("--frameworks=jax", exit_code=4)
    assert "AssertionError: pytest must not import a framework" in ran.sentence


def test_one_named_twice_is_measured_once(folder: Folder) -> None:
    assert folder.run("--frameworks=fake,fake", exit_code=0).outcomes == {"1M": "NO_BASELINE"}
