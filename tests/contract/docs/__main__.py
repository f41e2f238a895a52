"""Run the commands of README, CONTRIBUTING and docs: `python -m tests.contract.docs`.

They run as they are written, in the order of their page, with bash, in a copy of the checkout for
each page, which is removed afterwards. `_Ground` makes what pages take for granted: files of
earlier sessions, recordings, and environments in the user's home. `_UNRUN` says which commands are
not run, and why: the tests parse those. Where a page shows the output of a
command, the same words must be printed. PYTEST_ADDOPTS applies to commands that measure, except for
options that they name themselves; `--short` sets it to small payloads. Exit code 1: a command
failed.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.contract.docs import programs
from tests.contract.docs.collecting import INTERPRETERS
from tests.contract.docs.pages import PAGES, ROOT, Command, commands, name_of
from tests.contract.docs.shown import read_outputs, unprinted

# Of options that take long; compiling takes none of those that say how hard to measure.
_SHORT = "--payloads=1K,64K"
_SHORT_MEASURED = f"{_SHORT} --launches=2 --time-budget=5"
# A shell exits with 1 if the verdict of a session fails, or if two programs differ.
_VERDICT = (0, 1)

# pattern of a command's text -> why it is not run
_UNRUN = {
    r"pip install": "changes the environment",
    r"--device=(tpu|gpu)|tpu-v5-lite|bench gpu": "needs the hardware",
    r"gcloud": "needs a bucket",
    r"^(srun|mpirun)|--hosts=node|dask (scheduler|worker)|--cluster=": "needs other hosts",
    r"--libtpu=": "downloads compilers",
    r"-m bench (error_rates|faults)|--soak=": "takes long",
    r"-m tox\b|busbw bisect|-m venv|-m pytest -n": "takes long, or needs another",
    r"--shapes=": "needs a model's shapes",
    r"^busbw summary results.json --history=history$": "needs the session of a job",
}
# What pages take for granted: (file or folder, the words of pytest that write it).
_WRITTEN = (
    ("session.json", "--frameworks=jax --launches=2 --payloads=1K:64K --results=session.json"),
    ("monday.json", "--frameworks=jax --launches=1 --payloads=1K --results=monday.json"),
    ("tuesday.json", "--frameworks=jax --launches=1 --payloads=1K --results=tuesday.json"),
    ("compiled.json", "--topology=v5e:2x4 --payloads=1K --results=compiled.json"),
    ("history-of-one", "--frameworks=jax --launches=1 --payloads=1K --history=history-of-one"),
    (
        "history-of-another",
        "--frameworks=jax --launches=1 --payloads=2K --history=history-of-another",
    ),
    ("baselines", "--payloads=1K,2K --launches=2 --update-baselines"),
)
# Named so that the payload is in the name, as trace reads it.
_RECORDINGS = {"jax_cpu.xplane.pb.gz": "mnist_tpuv2n8_bs1024_scale16"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What came of one command."""

    command: Command
    result: str
    failed: bool = False
    text: str = ""


def _unrun(command: Command) -> str:
    """Why a command is not run here; nothing if it is."""
    for pattern, reason in _UNRUN.items():
        if re.search(pattern, command.text):
            return reason
    return ""


class _Ground:
    """Where commands run: a home, and a copy of the checkout for each page."""

    def __init__(self, folder: Path, *, short: bool) -> None:
        self.folder = folder
        self._short = short
        self.environment: Mapping[str, str] = {
            **os.environ,
            "HOME": str(folder / "home"),
            "HOSTNAME": "here",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        for name in INTERPRETERS:
            _interpreter(folder / "home" / name)

    def checkout(self, page: Path) -> Path:
        """Make a new copy of what git lists, with a remote and all that is given."""
        checkout = self.folder / name_of(page).replace("/", "-")
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)
        origin = f"{checkout}.git"
        for words in (
            ["init", "-q", "--bare", origin],
            ["init", "-q"],
            ["remote", "add", "origin", origin],
        ):
            subprocess.run(["git", *words], cwd=checkout, check=True)
        _record(checkout / "recordings")
        for name, options in _WRITTEN:
            self._write(checkout, name, options)
        return checkout

    def _write(self, checkout: Path, name: str, options: str) -> None:
        """Write what a session writes, once for all pages."""
        copy = self.folder / "given" / name
        if not copy.exists():
            self.bash(f"python -m pytest perf/ {options}", checkout, limit_s=600)
            copy.parent.mkdir(exist_ok=True)
            _copied(checkout / name, copy)
        _copied(copy, checkout / name)

    def _addopts(self, text: str) -> Mapping[str, str]:
        # A program has its own collectives, and -k chooses among all payloads.
        if not self._short or "--program" in text or " -k " in text:
            return {}
        if "--topology" in text:
            return {"PYTEST_ADDOPTS": _SHORT}
        return {"PYTEST_ADDOPTS": _SHORT_MEASURED}

    def bash(self, text: str, checkout: Path, limit_s: float) -> tuple[int | None, str]:
        """Return the exit code, None after the time limit, and the output; end all processes."""
        with subprocess.Popen(
            ["bash", "-c", text],
            cwd=checkout,
            env={**self.environment, **self._addopts(text), "PYTHONPATH": str(checkout)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return None, process.communicate()[0]
            except KeyboardInterrupt:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            return process.returncode, output


def _copied(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source != target:
        shutil.copy2(source, target)


def _record(folder: Path) -> None:
    """Write a recording of the tests into a folder whose name says its payload."""
    for name, run in _RECORDINGS.items():
        session = folder / run / "plugins" / "profile" / "2026_01_01"
        session.mkdir(parents=True)
        content = gzip.decompress(
            (ROOT / "tests/unit/extensions/profiles/data" / name).read_bytes()
        )
        (session / name.removesuffix(".gz")).write_bytes(content)


def _interpreter(folder: Path) -> None:
    """Make an environment with links to the packages of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    spec = importlib.util.find_spec("pytest")
    assert spec is not None and spec.origin is not None
    (into,) = folder.glob("lib/python*/site-packages")
    shutil.copytree(Path(spec.origin).parents[1], into, copy_function=_linked, dirs_exist_ok=True)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _run(command: Command, ground: _Ground, checkout: Path, limit_s: float) -> Ran:
    """Run one command by bash."""
    began = time.monotonic()
    code, text = ground.bash(command.text, checkout, limit_s)
    measures = any(programs.session(words) for words in command.calls)
    failed = code not in (_VERDICT if measures or "busbw program" in command.text else (0,))
    result = "timeout" if code is None else f"exit code {code}"
    took = f"{result}, {time.monotonic() - began:.0f} s"
    return Ran(command=command, result=took, failed=failed, text=text)


def _all(options: argparse.Namespace) -> Iterator[Ran]:
    done: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="busbw-docs.") as name:
        ground = _Ground(Path(name), short=options.short)
        for page in PAGES:
            new = [
                command
                for command in commands(page)
                if command.is_block and command.text not in done
            ]
            done |= {command.text for command in new}
            if re.search(options.pages, name_of(page)):
                yield from _of_page(page, new, ground, options)


def _of_page(
    page: Path, new: Sequence[Command], ground: _Ground, options: argparse.Namespace
) -> Iterator[Ran]:
    reasons = [(_unrun(command), command) for command in new]
    checkout = ROOT if all(reason for reason, _ in reasons) else ground.checkout(page)
    for reason, command in reasons:
        if reason:
            yield Ran(command=command, result=f"not run: {reason}")
        else:
            yield _compared(_run(command, ground, checkout, options.limit_s), page)


def _compared(ran: Ran, page: Path) -> Ran:
    """Fail a command whose page shows words that it did not print."""
    # What is slowed down on purpose is not found in each session.
    lines = [] if "--inject" in ran.command.text else read_outputs(page).get(ran.command.text, [])
    missing = unprinted(lines, ran.text)
    if not missing:
        return ran
    return replace(ran, failed=True, text="\n".join([ran.text, "not printed:", *missing]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.contract.docs", description=__doc__)
    parser.add_argument("--pages", default="", metavar="REGEX", help="of these pages alone")
    parser.add_argument("--short", action="store_true", help=f"PYTEST_ADDOPTS={_SHORT_MEASURED!r}")
    parser.add_argument("--limit-s", type=float, default=1800, help="of a command (default: 1800)")
    return parser


def main() -> int:
    """Run all commands, and print a line for each. Return the exit code."""
    failures = []
    for ran in _all(_parser().parse_args()):
        failures.append(ran.failed)
        mark = "FAILED" if ran.failed else "ok"
        print(f"{mark:6}  {ran.result:24}  {ran.command.place:24}  {ran.command.text}", flush=True)
        if ran.failed:
            print("\n".join(f"        {line}" for line in ran.text.splitlines()[-15:]), flush=True)
    # A run of no command shows nothing.
    return int(not failures or any(failures))


if __name__ == "__main__":
    sys.exit(main())
