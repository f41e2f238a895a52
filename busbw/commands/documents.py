"""Files of `--results` as commands read them: errors are usage errors that name the file."""

from __future__ import annotations

from pathlib import Path

from busbw import inputs, report

from .command import usage_error


def session_in(path: Path) -> report.Session | report.CompiledSession:
    """The session in a file of `--results`. Raises UsageError."""
    with usage_error(inputs.InputError, where=f"{path}: "):
        content = inputs.content(path)
    with usage_error(report.DocumentError):
        return report.read_results(content, str(path))
