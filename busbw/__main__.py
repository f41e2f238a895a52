"""`python -m busbw COMMAND`: the door to the commands, and nothing else."""

import io
import os
import sys

from busbw.commands import main

# What a shell says of a program that wrote to a reader who had left, as `head` does.
_READER_LEFT = 141

# The name of a folder may be no text.
if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(errors="backslashreplace")
try:
    code = main()
    sys.stdout.flush()
except BrokenPipeError:
    # Else Python would complain again when it flushes at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    code = _READER_LEFT
sys.exit(code)
