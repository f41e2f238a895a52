"""Calculate the cost of gradient synchronization in a training step: `busbw estimate`."""

COMMANDS = {"estimate": "command"}
