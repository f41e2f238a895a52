"""Workers that are killed at their start: the first time they are started again, with a note."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.session_folder import WITHOUT_CACHE, Folder, Ran
from tests.helpers.sweep import sweep
from tests.helpers.workers import interpreter

KILLED = "the worker was killed (SIGKILL) while starting"


def option_that_kills(folder: Folder, launch: str, times: int, act: str = "kill -KILL $$") -> str:
    return f"--python=fake={interpreter(folder.path, launch, times=times, act=act)}"


def launches(ran: Ran, payload: str = "1K") -> list[str]:
    return [launch["launch"] for launch in ran.case(payload)["launches"]]


def failures(ran: Ran, payload: str = "1K") -> list[str]:
    return [failure["launch"] for failure in ran.case(payload)["failures"]]


@pytest.mark.parametrize("act", sweep(["kill -KILL $$", "kill -TERM $$", "kill -SEGV $$"]))
def test_a_launch_is_repeated_once_with_a_note_if_its_worker_is_killed_at_its_start(
    folder: Folder, act: str
) -> None:
    ran = folder.run(
        option_that_kills(folder, "1.fake", 1, act), "--payloads=1K,4K", "--launches=2", exit_code=0
    )
    assert ran.outcomes == {"1K": "NO_BASELINE", "4K": "NO_BASELINE"}
    assert launches(ran) == launches(ran, "4K") == ["1.fake.again", "2.fake"]
    (note,) = (line for line in ran.text.splitlines() if line.startswith("note: "))
    assert note.startswith("note: launch 1.fake: the worker ")
    assert note.endswith(" while starting; it was started once more")


def test_only_the_launch_fails_whose_worker_is_killed_twice_at_its_start(
    folder: Folder,
) -> None:
    ran = folder.run(
        option_that_kills(folder, "1.fake", 2), "--payloads=1K,4K", "--launches=2", exit_code=1
    )
    assert ran.outcomes == {"1K": "FAILED", "4K": "FAILED"}
    assert failures(ran) == failures(ran, "4K") == ["1.fake.again"]
    assert launches(ran) == ["2.fake"]
    assert KILLED in ran.case("1K")["text"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("side", sweep(["reference", "candidate"]))
def test_a_launch_of_either_stack_is_repeated_once_if_its_worker_is_killed_at_its_start(
    folder: Folder, side: str
) -> None:
    python = interpreter(folder.path, f"1.fake.{side}", times=1)
    ours, theirs = (sys.executable, python) if side == "reference" else (python, sys.executable)
    options = (f"--python=fake={ours}", f"--against=fake={theirs}")
    ran = folder.run(*options, "--payloads=1K", "--launches=2", exit_code=0)
    assert ran.outcomes == {"1K": "PASS"}
    assert f"note: launch 1.fake.{side}: {KILLED}; it was started once more" in ran.text


@pytest.mark.exhaustive
@pytest.mark.extension("compiled")
def test_a_worker_that_compiles_is_started_once_more_after_a_kill_at_its_start(
    folder: Folder,
) -> None:
    # The extension, and its folders of tests, can be deleted.
    from tests.contract.compiled.fake_compiler import compiled

    ran = compiled(folder, option_that_kills(folder, "compile-2", 1), exit_code=0)
    assert f"note: launch compile-2: {KILLED}; it was started once more" in ran.text
    assert "= 2 without baseline in " in ran.text


def test_every_case_fails_without_a_usage_error_if_the_worker_of_a_probe_is_killed_twice(
    folder: Folder,
) -> None:
    ran = folder.run(option_that_kills(folder, "probe", 2), exit_code=1)
    assert "the worker was killed (SIGKILL) while looking for devices with fake" in ran.text
    assert "note: launch probe: " in ran.text
    assert "1 failed" in ran.last_line
    assert len(ran.failures) == 1 and ran.session_failure


def test_an_interpreter_that_ends_with_an_error_is_a_usage_error_and_is_not_started_again(
    folder: Folder,
) -> None:
    ran = folder.run(option_that_kills(folder, "probe", 9, "echo too old >&2; exit 1"), exit_code=4)
    assert ran.sentence.endswith(
        "ended with exit code 1 while looking for devices with fake: too old"
    )
    assert (folder.path / "hits-9").read_text() == "once\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    sweep(
        [
            ("pthread_create", "SIGABRT while starting: env.cc:93] Check failed: ret == 0 (11 vs"),
            ("transfer_guard", "INVALID_ARGUMENT: Disallowed host-to-device transfer: aval="),
            ("coordination_service", "client.h:80] Terminating process because the JAX "),
        ]
    ),
)
def test_a_failed_case_is_reported_with_the_fatal_line_of_the_log_of_its_worker(
    folder: Folder, name: str, reason: str
) -> None:
    log = Path(__file__).parents[2] / "unit" / "driver" / "logs" / f"{name}.txt"
    end = "exit 1" if name == "transfer_guard" else "kill -ABRT $$"
    ran = folder.run(option_that_kills(folder, "1.fake", 9, f"cat {log} >&2; {end}"), exit_code=1)
    assert reason in ran.case()["text"]
    (answer,) = [line for line in ran.text.splitlines() if line.startswith("1 FAILED: fake 1M: ")]
    assert reason in answer


@pytest.mark.exhaustive
@pytest.mark.framework("jax")
def test_a_session_passes_even_if_a_conftest_starts_jax_while_warnings_are_errors(
    folder: Folder,
) -> None:
    with (folder.path / "conftest.py").open("a") as conftest:
        conftest.write("\nimport jax\n\nassert jax.devices()\n")
    folder.environment.setenv("JAX_PLATFORMS", "cpu")
    options = ("--frameworks=jax", "--payloads=4K", "--launches=1", "--ranks=2")
    assert "error" not in folder.pytest("perf", *WITHOUT_CACHE, *options, exit_code=0).last_line
