"""The vocabulary: enums and frozen values that every other package uses.

Imports only the standard library, because a worker under a foreign interpreter (Python 3.11 or
newer) gets this package too. Durations are seconds and sizes are bytes; other units are in the
name. No value here knows pytest, a framework, a file or a clock.
"""
