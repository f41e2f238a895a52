"""Tables of bandwidths from recordings of profilers: `busbw trace`.

JAX reads `*.xplane.pb`, and Python's json reads `*.trace.json.gz`. A recording may come from
anywhere, so its size is limited, and nothing of it is executed.
"""

COMMANDS = {"trace": "command"}
