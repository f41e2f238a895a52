"""No attack makes a session green, loses what was stored, or has code of its own run."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import folder, forked, written
from tests.plugin.folder import SLOW, Folder

from .attack import CANARY
from .commands import EMPTY, EXECUTED, IMPOSSIBLE, OF_PYTEST
from .conftests import CONFTESTS
from .stored import BASELINES, FILES, HISTORIES
from .workers import WORKERS

__all__ = ["folder", "forked", "written"]

GROUPS = {
    "empty": EMPTY,
    "impossible": IMPOSSIBLE,
    "pytest": OF_PYTEST,
    "executed": EXECUTED,
    "conftest": CONFTESTS,
    "baseline": BASELINES,
    "history": HISTORIES,
    "file": FILES,
    "worker": WORKERS,
}
ATTACKS = {
    f"{group}, {name}": one for group, those in GROUPS.items() for name, one in those.items()
}


def stored(folder: Folder) -> bytes:
    """Every line of baselines and history, with what was put beside them."""
    found = (path for name in ("baselines", "history") for path in (folder.path / name).rglob("*"))
    # A link may lead to what has no end.
    files = (path for path in found if path.is_file() and not path.is_symlink())
    return b"".join(path.read_bytes() for path in files)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_not_green_and_loses_nothing(folder: Folder, name: str) -> None:
    attack = ATTACKS[name]
    folder.script(**SLOW)
    folder.with_baselines("--history=history")
    folder.script(**{**SLOW, "cases": [{"slower": 5}], **attack.script})
    folder.ini(attack.ini)
    if attack.conftest:
        (folder.path / "perf" / "conftest.py").write_text(attack.conftest)
    for variable, value in attack.environment.items():
        folder.environment.setenv(variable, value)
    attack.do(folder)
    before = stored(folder)
    code, text = folder.ended(*attack.options)
    assert code in attack.codes, text
    assert attack.says in text
    after = stored(folder)
    assert all(line.strip(b"\r") in after for line in before.splitlines())
    assert not list(folder.path.rglob(CANARY))
