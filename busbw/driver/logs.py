"""The line of a process's log that says why it ended.

A process that aborts logs why, then addresses, the stacks of its threads and the names of extension
modules; so the last line says nothing.
"""

from __future__ import annotations

import re

REASON_CHARACTERS = 300

# What a library, the compiler, the C++ and the C run time, the loader and Python write as they end
# a process; the first such line is the cause, and the others follow from it.
_FATAL = re.compile(
    r"""
    ^F\d{4}\ [\d:.]+\ +\d+\ \S+\]       # Abseil: F1128 00:21:15.676642   26247 client.h:80] ...
    | ^[\d-]+\ [\d:.]+:\ F\ \S+\]       # TensorFlow: 2026-11-28 00:21:15.676642: F tensor.cc:1] ...
    | \bCheck\ failed:
    | \bLLVM\ ERROR:
    | \bDEADLINE_EXCEEDED\b
    | ^terminate\ called
    | \bAssertion\ .+\ failed\.
    | ^thread\ .+\ panicked\ at
    | ^fatal\ error:
    | ^(?:free|malloc|realloc|munmap_chunk)\(\):
    | ^(?:double\ free|corrupted\ |malloc_consolidate)
    | \*\*\*\ stack\ smashing\ detected
    | :\ error\ while\ loading\ shared\ libraries:
    | :\ symbol\ lookup\ error:
    """,
    re.VERBOSE | re.MULTILINE,
)
_PYTHON_FATAL = re.compile(r"^Fatal Python error: ", re.MULTILINE)
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)
_THREAD = re.compile(
    r"^(?:(?P<current>Current t)|T)hread 0x\w+ .*\(most recent call first\):$", re.MULTILINE
)
_FRAME = re.compile(r' *File "(?:.*/)?(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.+)')
# Date, time and thread before the source file differ from launch to launch.
_PREFIX = re.compile(r"^(?:F\d{4} [\d:.]+ +\d+|[\d-]+ [\d:.]+: F) ")


def reason(log: str) -> str:
    """Return the line of `log` that says why its process ended, without its middle if it is long.

    It is the first line of a fatal error, else the exception of the last traceback, else where
    Python was in the current thread, else the last line; empty for an empty log.
    """
    line = _PREFIX.sub("", _line(log)).strip()
    half = REASON_CHARACTERS // 2
    return line if len(line) <= REASON_CHARACTERS else f"{line[:half]} ... {line[-half:]}"


def excerpt(log: str, characters: int) -> str:
    """Return the end of `log`, below the fatal line if that is before."""
    fatal = _FATAL.search(log)
    if not fatal or fatal.start() >= len(log) - characters:
        return log[-characters:]
    head = f"{_whole_line(log, fatal.start())[:REASON_CHARACTERS]}\n...\n"
    return head + log[len(head) - characters :]


def _line(log: str) -> str:
    if fatal := _FATAL.search(log):
        return _whole_line(log, fatal.start())
    tracebacks = list(_TRACEBACK.finditer(log))
    if tracebacks and (raised := _exception(log[tracebacks[-1].end() :])):
        return raised
    place = _place(log)
    if fatal := _PYTHON_FATAL.search(log):
        return f"{_whole_line(log, fatal.start())} {place}"
    return place or log.strip().rpartition("\n")[2]


def _place(log: str) -> str:
    """Return the innermost call of the current thread, in a stack that faulthandler printed."""
    threads = list(_THREAD.finditer(log))
    if not threads:
        return ""
    current = next((one for one in threads if one["current"]), threads[-1])
    frame = _FRAME.match(log, current.end() + 1)
    return f"in {frame['function']} ({frame['file']}, line {frame['line']})" if frame else ""


def _whole_line(log: str, place: int) -> str:
    begin = log.rfind("\n", 0, place) + 1
    return log[begin:].partition("\n")[0]


def _exception(text: str) -> str:
    """Return the first line below the frames of a traceback, which are indented."""
    lines = text.splitlines()[1:]
    return next((line for line in lines if line.strip() and not line.startswith(" ")), "")
