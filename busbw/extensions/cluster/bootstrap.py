"""The first code of busbw that runs on a host: it unpacks the rest, and starts a Host.

execnet runs it in a new interpreter, which needs nothing but the standard library.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import zipfile
from typing import Any

# What a Python on a host runs first; execnet sends the next line.
PYTHON_CODE = (
    "import sys;sys.version_info<(3,11)and sys.exit("
    "'Python %d.%d is too old: expected 3.11 or newer'%sys.version_info[:2]);"
    "exec(eval(sys.stdin.readline()))"
)

if __name__ == "__channelexec__":
    # execnet adds the channel to the session to the globals of this file.
    channel: Any = globals()["channel"]
    variables, archive = channel.receive()
    os.environ.update(variables)
    try:
        with tempfile.TemporaryDirectory(prefix="busbw-files.") as folder:
            zipfile.ZipFile(io.BytesIO(archive)).extractall(folder)
            sys.path.insert(0, folder)
            from busbw.extensions.cluster.host import Host

            host = Host(folder)
        host.serve(channel)
    except OSError as error:
        # Such as a full disk. The session waits for the identity of the machine.
        channel.send(str(error))
    # execnet would wait for its session, which may be unreachable.
    os._exit(0)
