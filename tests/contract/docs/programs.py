"""What each program of the pages accepts: commands, options and their values, without running any.

`problem` says what is wrong with a call of a program, or nothing.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import functools
import io
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence

from busbw import cli
from tests.contract.docs.pages import ROOT

# What is not ours is only named here.
FOREIGN = ("build", "gcloud", "pre-commit", ".", "dask", "srun", "mpirun")
_STANDARD = ("venv",)

Problem = Callable[[Sequence[str]], str]


def problem(words: Sequence[str], pytest_problem: Problem) -> str:
    """Why this call cannot work, or nothing; `pytest_problem` is asked for the words of pytest."""
    program = re.sub(r"^~/.*/", "", words[0])
    module = list(words[1:])
    if program == "python" and words[1:2] == ["-m"]:
        program, module = words[2], list(words[3:])
    elif program == "python":
        return "" if (ROOT / words[1]).is_file() else f"no file {words[1]}"
    if program in (*FOREIGN, *_STANDARD):
        return ""
    if program == "pytest":
        return pytest_problem(module)
    if program.startswith("tests."):
        return _of_module(program, module)
    checks = {"busbw": _of_busbw, "bench": _of_bench, "tox": _of_tox, "pip": _of_pip}
    return checks[program](module) if program in checks else f"no program {program}"


def session(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of pytest in a call that measures or compiles; nothing for other calls."""
    if any(word.startswith("--cluster=") for word in words):
        # Options are read once the scheduler has said how many workers it has.
        return ()
    if "perf/" in words:
        return tuple(words[words.index("perf/") :])
    ours = list(words[2:] if words[:2] == ["python", "-m"] else words)
    if ours[:2] == ["busbw", "bisect"] and "--" in ours:
        return ("perf/", *ours[ours.index("--") + 1 :])
    if ours[:2] != ["busbw", "run"] or ours[2:] == ["OPTIONS"]:
        return ()
    named = [word.removeprefix("busbw/") for word in ours[2:]]
    return tuple(named) if any(word.startswith("perf/") for word in named) else ("perf/", *named)


def _of_busbw(words: Sequence[str]) -> str:
    """Read the command and its options with its parser; a command alone is a name."""
    if not words or words[0] in ("--help", "--version"):
        return ""
    if len(words) == 1 or words[1].isupper():
        return "" if words[0] in busbw_parsers() else f"no command {words[0]}"
    return _parsed(busbw_parsers(), words[: words.index("--")] if "--" in words else words)


def busbw_parsers() -> Mapping[str, argparse.ArgumentParser]:
    parsers = _Raising().add_subparsers()
    for command in cli.find_command_modules():
        command.add_subcommand(parsers)
    return parsers.choices


def _of_bench(words: Sequence[str]) -> str:
    """Return what the parser of the benchmarks says of a call, or nothing."""
    # The benchmarks import extensions, which can be deleted.
    from bench.__main__ import parser as bench_parser

    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            bench_parser().parse_args(words)
    except SystemExit:
        return errors.getvalue().strip().rpartition("\n")[2]
    return ""


class _Raising(argparse.ArgumentParser):
    """A parser that raises what it would print."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise it."""
        raise ValueError(message)


def _parsed(parsers: Mapping[str, argparse.ArgumentParser], words: Sequence[str]) -> str:
    if words[0] not in parsers:
        return f"no command {words[0]}"
    try:
        parsers[words[0]].parse_args(list(words[1:]))
    except ValueError as error:
        return str(error)
    return ""


def _of_tox(words: Sequence[str]) -> str:
    """Check the environments that it names, and its flags."""
    ini = configparser.ConfigParser()
    ini.read(ROOT / "tox.ini", encoding="utf-8")
    environments = {name.removeprefix("testenv:") for name in ini.sections() if ":" in name}
    if list(words) in (["-p", "-o"], ["list"]):
        return ""
    if words[:1] == ["-e"]:
        return "" if words[1] in environments else f"no environment {words[1]}"
    return f"not known of tox: {words}"


def _of_pip(words: Sequence[str]) -> str:
    """Check the extras of busbw that it installs."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = set(tomllib.loads(text)["project"]["optional-dependencies"])
    named = {
        extra
        for word in words
        if (match := re.fullmatch(r"(?:\.|busbw)\[(.*)\]", word))
        for extra in match[1].split(",")
    }
    if words[:1] != ["install"]:
        return f"not known of pip: {words}"
    return "" if named <= extras else f"no extra {', '.join(sorted(named - extras))}"


def _of_module(module: str, words: Sequence[str]) -> str:
    """Check that its help has each option, and that it accepts the words before them."""
    names = [word for word in words if not word.startswith("-")]
    positional = names[: next((n for n, word in enumerate(words) if word.startswith("-")), None)]
    done = _helped(module, *positional)
    if done.returncode:
        return done.stderr.strip().rpartition("\n")[2]
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    missing = sorted(options - set(re.findall(r"--[a-z][a-z-]*", done.stdout)))
    return f"{module} has no {', '.join(missing)}" if missing else ""


@functools.cache
def _helped(*words: str) -> subprocess.CompletedProcess[str]:
    """Return the help of a module, which is the same for every page."""
    return subprocess.run(
        [sys.executable, "-m", *words, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
