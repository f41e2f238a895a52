"""The vocabulary: enums and frozen values that every other package uses.

This package imports only the standard library, because workers import it under interpreters that
have only the framework and numpy (Python 3.11 or newer). Durations are in seconds and sizes in
bytes; a name says so if its unit is another. No module here imports pytest or a framework, opens a
file, or reads a clock.
"""
