"""What a program prints, or why not."""

from __future__ import annotations

import sys

import pytest

from busbw.stacks.interpreter import output
from busbw.stacks.lock import StackError


def _output(code: str, timeout_s: float = 60.0) -> str:
    return output([sys.executable, "-c", code], problem="it said", timeout_s=timeout_s)


def test_what_it_prints_is_returned() -> None:
    assert _output("print('all')") == "all\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit('1\\n2\\n\\n3\\n4\\n5')", "it said: 2; 3; 4; 5"),
        ("raise SystemExit(1)", "it said: no word of why"),
        ("open('/nowhere/at all')", r"it said: FileNotFoundError: .*'/nowhere/at all'"),
    ],
    ids=["last lines", "nothing", "of a traceback the last"],
)
def test_the_last_words_of_one_that_failed_are_told(code: str, said: str) -> None:
    with pytest.raises(StackError, match=rf"^{said}$"):
        _output(code)


def test_one_that_is_not_there_or_does_not_end_is_an_error() -> None:
    with pytest.raises(StackError, match=r"^it said: .*No such file or directory: '/nowhere'"):
        output(["/nowhere"], problem="it said", timeout_s=1.0)
    with pytest.raises(StackError, match=r"^it said: it did not finish within 0\.1 s$"):
        _output("import time; time.sleep(60)", timeout_s=0.1)
