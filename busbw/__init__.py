"""Measures all-reduce and reports when it got slower or no longer fits in memory.

Nothing is imported here: a worker under a foreign interpreter imports this package too.
"""

__version__ = "0.2.0"
