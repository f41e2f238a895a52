"""The package busbw: measures all-reduce, and tells when all-reduce becomes slower.

Nothing is imported here: workers import this package under the interpreters of other environments.
"""

__version__ = "0.2.0"
