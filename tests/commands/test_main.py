"""The name of a command: one that is mistyped is refused with the nearest, and exit code 2."""

from __future__ import annotations

import pytest

from .asked import command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["histroy"], "there is no command 'histroy'; did you mean 'history'? accepted are "),
        (["traces", "folder"], "there is no command 'traces'; did you mean 'trace'? "),
        (["psum"], "there is no command 'psum'; accepted are "),
        (["stack", "lst"], "argument ACTION: 'lst'; did you mean 'list'? accepted are list, build"),
        (["trace", "x", "--rate=busb"], "argument --rate: 'busb'; did you mean 'busbw'? "),
        (["trace", "x", "--collective=allreduce"], "did you mean 'all_reduce'? accepted are "),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_what_is_mistyped_is_a_usage_error_with_the_nearest(
    arguments: list[str], said: str
) -> None:
    ran = command(*arguments)
    assert ran.code == 2
    assert said in ran.err


def test_help_is_no_command() -> None:
    ran = command("--help")
    assert ran.code == 0
    assert "history" in ran.out
