"""Run the contract tests of the core without any extension: `python -m tests.contract.standalone`.

The tests run in a copy of the checkout that has neither the folders below `busbw/extensions/` nor
the folders of tests with their names. A test, or a parameter of a test, that needs an extension has
the mark `extension`, and is skipped where the extension is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.contract.docs.pages import ROOT

FOLDERS = ("tests/contract/commands", "tests/contract/plugin", "tests/contract/recorded")


def main() -> int:
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
    with tempfile.TemporaryDirectory() as temporary:
        copy = shutil.copytree(ROOT, Path(temporary) / "checkout", ignore=ignored)
        for extension in (copy / "busbw" / "extensions").glob("*/"):
            for folder in (extension, *(copy / "tests").glob(f"**/{extension.name}/")):
                shutil.rmtree(folder)
            (copy / "perf" / f"test_{extension.name}.py").unlink(missing_ok=True)
        options = ["-n3", "--dist=loadscope", "--no-loadscope-reorder", *sys.argv[1:]]
        command = [sys.executable, "-m", "pytest", *FOLDERS, *options]
        return subprocess.run(
            command, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
