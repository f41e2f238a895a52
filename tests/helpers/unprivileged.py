"""Run a command to whom permissions apply, also as root: `python unprivileged.py COMMAND...`.

Root's right to read and write every file is a capability of its own, which a process can give up
for the programs that it starts.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2

if __name__ == "__main__":
    if os.geteuid() == 0:
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
