"""`python -m busbw parameter-server` with the fake trainer: the page, and every end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.driver.local import alone

from .asked import Answer, asked_here, command

# Each is a command that starts groups of processes.
pytestmark = pytest.mark.slow

EARLIER = (
    "<!-- Written by `python -m busbw parameter-server`, not by hand. -->\nA page\n"
    "<!-- End of busbw parameter-server. -->\n"
)


def page(*options: str | Path) -> Answer:
    return command("parameter-server", "--framework=fake", *options)


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BUSBW_FAKE", raising=False)


def script(to: pytest.MonkeyPatch, **fields: object) -> None:
    to.setenv("BUSBW_FAKE", json.dumps(fields))


@pytest.mark.slow
def test_all_rows_stand_beside_the_published_ones() -> None:
    said = page("--epochs=3")
    assert (said.code, said.err) == (0, "")
    assert len([row for row in said.table if row[0].startswith(("1 ps", "2 ps"))]) == 6
    row = ["2 ps, 2 workers, synchronous", "6.9", "40, 38", "5.3", "72 %"]
    here = ["1.00 (1.00-1.00)", "2.00", "1.0", "75.0 %", "600/1200"]
    assert [*row, *here] in said.table
    row = ["1 ps, 3 workers, asynchronous", "5.75, 5.85, 6.5", "12, 42, 37", "4.6", "82, 83, 83 %"]
    here = ["1.00 (1.00-1.00)", "2.00", "1.0", "75.0 %", "1800/1800"]
    assert [*row, *here] in said.table


@pytest.mark.exhaustive
def test_rows_can_be_chosen_and_what_they_lack_is_not_compared() -> None:
    said = page("--rows=1ps-1worker,1ps-2workers", "--epochs=1")
    assert said.code == 0
    row = ["1 ps, 1 worker, asynchronous", "3.8", "-", "-", "72 %"]
    here = ["2.00 (2.00-2.00)", "2.00", "-", "75.0 %", "200/200"]
    assert [*row, *here] in said.table


def test_while_another_session_measures_it_waits_and_then_says_whose_turn_it_is() -> None:
    with alone(1.0):
        said = page("--rows=single", "--device-wait=0.2")
    assert (said.code, said.out) == (1, "")
    assert "another session is measuring on this machine; waiting" in said.err
    assert "has been measuring on this machine for 0.2 s" in said.err
    assert page("--rows=single", "--device-wait=0.2").code == 0


def test_a_member_that_dies_leaves_the_page_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script(monkeypatch, roles={"worker 1": "kill"})
    document = tmp_path / "page.md"
    document.write_text(EARLIER)
    said = page("--rows=1ps-1worker,1ps-2workers-sync", f"--document={document}")
    assert said.code == 1
    assert said.errors[0] == (
        "busbw parameter-server: KILLED: 1ps-2workers-sync: worker 1: "
        "the worker was killed (SIGKILL) while training"
    )
    assert "the script says kill" in said.err
    assert document.read_text() == EARLIER


@pytest.mark.exhaustive
def test_a_member_that_is_silent_ends_the_row_at_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script(monkeypatch, roles={"chief 0": "hang"})
    said = page("--rows=1ps-1worker", "--timeout=0.5")
    assert said.code == 1
    assert "TIMEOUT: 1ps-1worker: chief 0: the worker did not answer within 0.5 s" in said.err


@pytest.mark.exhaustive
def test_an_update_too_few_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, lose_updates=1)
    said = page("--rows=1ps-2workers-sync", "--epochs=1")
    assert said.code == 1
    assert (
        "WRONG_RESULT: 1ps-2workers-sync: the variables saw 199 updates of 400 gradients and the "
        "global step is 200, expected 200 of 400"
    ) in said.err


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("parameter-server --rows=3ps", "expected one of single, 1ps-1worker"),
        ("parameter-server --epochs=0", "'0'; accepted is a whole number from 1 on"),
        ("parameter-server --timeout=-1", "'-1'; accepted is a number of seconds above 0"),
        ("parameter-server --framework=jax", "argument --framework: invalid choice: 'jax'"),
        ("tpu-v2 --framework=tensorflow", "argument --framework: invalid choice: 'tensorflow'"),
    ],
)
def test_what_is_not_accepted_is_a_usage_error(asked: str, message: str) -> None:
    asked_here(*asked.split()).refuses(message)
