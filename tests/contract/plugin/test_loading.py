"""The modules that a session loads: tests that measure nothing load no code that measures."""

from __future__ import annotations

import pytest

SHOWN = """
import sys

def pytest_unconfigure(config):
    print("LOADED", *(name for name in sys.modules if name.startswith(("busbw.", "scipy."))))
"""


def _loaded_modules(pytester: pytest.Pytester, test: str, *options: str) -> set[str]:
    pytester.makeconftest(SHOWN)
    pytester.makepyfile(test_mine=test)
    ran = pytester.runpytest_subprocess(
        "-s", "-p", "busbw.plugin", "-p", "no:hypothesispytest", *options
    )
    (line,) = (row for row in ran.outlines if "LOADED" in row)
    return set(line.partition("LOADED ")[2].split())


def test_a_session_whose_tests_read_no_verdict_imports_neither_the_judge_nor_the_driver(
    pytester: pytest.Pytester,
) -> None:
    modules = _loaded_modules(pytester, "def test_mine(tmp_path): pass")
    rooms = {name.split(".")[1] for name in modules}
    assert rooms.isdisjoint({"judge", "driver", "baselines", "history", "report", "stacks"})
    of_extensions = {name for name in modules if name.count(".") > 2}
    assert {name.rpartition(".")[2] for name in of_extensions} <= {"options"}
    assert "busbw.plugin.items" not in modules


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "test",
    [
        "def test_mine(busbw_verdict): 0",
        "import pytest\n\n@pytest.fixture\ndef mine(busbw_verdict): 0\n\ndef test_mine(mine): 0",
    ],
    ids=["itself", "by a fixture"],
)
def test_a_session_without_baselines_does_not_import_modules_that_it_does_not_need(
    pytester: pytest.Pytester, test: str
) -> None:
    modules = _loaded_modules(pytester, test, "--frameworks=fake", "--payloads=1M", "--launches=1")
    assert "busbw.session.run" in modules
    late = {"busbw.extensions.page.page", "busbw.extensions.cluster.transport", "scipy.special"}
    assert modules.isdisjoint(late)
