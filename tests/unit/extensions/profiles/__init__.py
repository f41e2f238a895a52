"""The reading of recordings, and the figures of `busbw trace`."""
