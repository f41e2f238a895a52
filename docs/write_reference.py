"""Write the page of options and commands: `python docs/write_reference.py > docs/reference.md`.

The page is the help of every command, so that an option has one description.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

_HEAD = """\
# Options and commands

Look up an option, a setting or a command. Each command prints its part of this page with `--help`.

## Options of a session

`python -m pytest perf/` and `busbw run` take these options, and those of pytest. An option that has
a setting can be written into the ini file that pytest reads, under its name with `busbw_` and
underscores. The command line wins.

    [tool.pytest.ini_options]
    busbw_payloads = "1K:64M"
    busbw_require_baselines = "true"

This is the form of `pyproject.toml`. In `pytest.ini` you write the values without quotes, below
`[pytest]`.
"""


def page() -> str:
    """Return the page, from the commands of the installed package."""
    session = _help("run")
    groups = re.findall(r"^busbw: .*:\n(?: .*\n)+", session, re.M)
    settings = sorted(set(re.findall(r"^  (busbw_\w+) \(", session, re.M)))
    commands = re.findall(r"^    ([a-z-]+)(?:  .*)?$", _help(), re.M)
    return "\n".join(
        [
            _HEAD,
            *(_section(group) for group in groups),
            "### Settings\n",
            "".join(f"- `{name}`\n" for name in settings),
            "## Commands\n",
            *(f"### busbw {name}\n\n{_block(_help(name))}" for name in commands if name != "run"),
        ]
    )


def _section(group: str) -> str:
    heading, _, options = group.partition("\n")
    title = heading.removeprefix("busbw: ").rstrip(":")
    return f"### {title[0].upper()}{title[1:]}\n\n{_block(options)}"


def _block(text: str) -> str:
    return f"```text\n{text.strip(chr(10))}\n```\n"


def _help(*command: str) -> str:
    """Return the help of a command, in lines of a fixed width."""
    call = [sys.executable, "-m", "busbw", *command, "--help"]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    print(page(), end="")
