"""The entry of `busbw COMMAND` and of `python -m busbw COMMAND`.

This file escapes control characters in the output of commands. The command prints no traceback if
the output is closed, as by ``head``, or if the user interrupts. The commands are in `busbw.cli`.
"""

import functools
import io
import os
import signal
import sys

from busbw import cli

# The exit code that a shell gives to a program killed by SIGPIPE, as before `| head`.
_EXIT_CODE_OF_SIGPIPE = 141


def main() -> int:
    """Run the command that the arguments of the process name, and return the exit code."""
    code = 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names of files need not be valid text.
            stream.reconfigure(errors="backslashreplace")
            write = functools.partial(cli.write_escaped, stream.write)
            stream.write = write  # type: ignore[method-assign]
    try:
        code = cli.main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Else Python would report it again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _EXIT_CODE_OF_SIGPIPE
    except KeyboardInterrupt:
        sys.stderr.write("busbw: interrupted\n")
        sys.stderr.flush()
        # End as the signal would have ended it, so that a shell stops, too.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    return code


if __name__ == "__main__":
    sys.exit(main())
