"""Begin on a new machine or in a new repository: `busbw doctor` and `busbw init`."""

COMMANDS = {"doctor": "doctor", "init": "init"}
