"""The bundle: what a worker needs alone, and nothing of ours beside it on a worker's path."""

from __future__ import annotations

import ast
import sys
import sysconfig
import venv
from pathlib import Path

from busbw.driver import Bundle, Worker

from .scripts import starter

SHOWN = "import sys\nprint('path:', sys.path, file=sys.stderr)\n"
STANDARD_AND_OURS = {*sys.stdlib_module_names, "busbw"}


def test_it_holds_what_a_worker_may_import_and_nothing_else(bundle: Bundle) -> None:
    assert sorted(path.name for path in bundle.path.iterdir()) == ["__main__.py", "busbw"]
    package = sorted(path.name for path in (bundle.path / "busbw").iterdir())
    assert package == ["__init__.py", "collectives", "model", "traces", "wire.py", "worker"]


def test_it_holds_no_byte_code_of_another_interpreter(bundle: Bundle) -> None:
    assert not list(bundle.path.rglob("*.pyc"))
    assert {path.suffix for path in bundle.path.rglob("*.*")} == {".py"}


def test_outside_the_back_ends_it_needs_the_standard_library_only(bundle: Bundle) -> None:
    for path in bundle.path.rglob("*.py"):
        if path.parent.name != "backends":
            assert imported(path) <= STANDARD_AND_OURS, path


def imported(path: Path) -> set[str]:
    """The top names of the absolute imports in a file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_a_foreign_interpreter_sees_its_own_packages_and_none_of_ours(
    bundle: Bundle, tmp_path: Path
) -> None:
    home = tmp_path / "foreign"
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(SHOWN)
    worker = Worker(starter(str(home / "bin" / "python")), bundle, "1.fake")
    try:
        assert worker.ask(None, 60) == ("ready", None)
    finally:
        worker.kill()
    log = bundle.log_path("1.fake.fake").read_text()
    path = ast.literal_eval(log.splitlines()[-1].removeprefix("path: "))
    assert str(packages) in path
    assert sysconfig.get_path("purelib") not in path
    assert str(Path(__file__).parents[2]) not in path


def test_removing_it_leaves_nothing(bundle: Bundle) -> None:
    bundle.log_path("1.fake").write_text("log")
    bundle.remove()
    assert not bundle.path.exists()
