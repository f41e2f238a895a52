"""Calculate what gradient synchronization should cost a training step: `busbw estimate`."""

COMMANDS = {"estimate": "command"}
