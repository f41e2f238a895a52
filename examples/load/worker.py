"""The load of the machine, read by a worker that measures nothing.

Files `worker*.py` are sent to hosts and to other Pythons, which have only the standard library, the
framework and numpy.
"""

import os


def open_session(options):
    """Return what the operations of this worker share, here nothing; `options` has its device."""
    return None


def read_load(session, request):
    """Return the load of the last minute; `request` has the values of the Request, here none."""
    return os.getloadavg()[0]
