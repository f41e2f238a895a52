"""Print tables of bandwidths from recordings of profilers: `busbw trace`.

JAX reads files `*.xplane.pb`, and Python's json reads files `*.trace.json.gz`. A recording may come
from an unknown source, so the size of a recording is limited, and no part of it is executed.
"""

COMMANDS = {"trace": "command"}
