"""The first code of busbw that runs on a host: it unpacks the rest, and starts a Host.

It is sent as text and needs nothing but the standard library: execnet runs it in a new interpreter,
and Dask inside a worker.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import zipfile
from typing import Any


def host_of(archive: bytes) -> Any:
    """Return the Host of a session whose files are in `archive`, a zip file."""
    # A Dask worker may have imported the files of an earlier session.
    for module in [name for name in sys.modules if name.partition(".")[0] == "busbw"]:
        del sys.modules[module]
    with tempfile.TemporaryDirectory(prefix="busbw-files.") as folder:
        zipfile.ZipFile(io.BytesIO(archive)).extractall(folder)
        sys.path.insert(0, folder)
        try:
            from busbw.extensions.cluster.host import Host

            return Host(folder)
        finally:
            sys.path.remove(folder)


if __name__ == "__channelexec__":
    # execnet runs this file, and adds the channel to the session to its globals.
    channel: Any = globals()["channel"]
    variables, files = channel.receive()
    os.environ.update(variables)
    try:
        host_of(files).serve(channel)
    except OSError as error:
        # Such as a full disk; ssh hands it to the log of the session.
        print(error, file=sys.stderr, flush=True)
    # execnet would wait for its session, which may be unreachable.
    os._exit(0)
