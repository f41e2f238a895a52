"""The first code of busbw that runs on a host of a cluster: unpack busbw, and start a Host.

execnet runs this file in a new interpreter, which needs only the standard library.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

# The code on the command line of the Python on a host. It executes the first line that execnet
# sends. An older Python can read this code, too, and then ends with a sentence.
PYTHON_CODE = (
    "import sys;sys.version_info<(3,11)and sys.exit("
    "'Python %d.%d is too old: expected 3.11 or newer'%sys.version_info[:2]);"
    "exec(eval(sys.stdin.readline()))"
)

if __name__ == "__channelexec__":
    # execnet adds the channel to the session to the globals of this file.
    channel: Any = globals()["channel"]
    variables, files = channel.receive()
    os.environ.update(variables)
    with tempfile.TemporaryDirectory(prefix="busbw-files.") as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        sys.path.insert(0, folder)
        from busbw.extensions.cluster.host import Host

        host = Host(folder)
    host.serve(channel)
    # A normal exit would wait for the session, which may be unreachable.
    os._exit(0)
