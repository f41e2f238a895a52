"""The vocabulary: the enums and frozen dataclasses that every other package uses.

This package imports only the standard library, because workers import it under interpreters that
have only the framework and numpy (Python 3.11 or newer). Durations are in seconds and sizes in
bytes. A value in another unit has the unit at the end of its name, such as `pinned_us`. No module
here imports pytest or a framework, opens a file, or reads a clock.
"""
