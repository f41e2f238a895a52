"""Readers of profiler recordings: files to events, events to collectives, these to iterations.

A leaf: bytes in, values out. Opens no file, judges nothing and makes no rate. The standard
library of Python 3.11, `busbw.model` and `busbw.collectives` only, for a worker under a foreign
interpreter reads its own recordings with it, as the command does those of others.
"""
