"""Check a new machine (`busbw doctor`), and set up a repository (`busbw init`)."""

COMMANDS = {"doctor": "doctor", "init": "init"}
