"""Statistics of samples, launches and sessions, as functions from numbers to numbers.

The functions judge nothing. They know no thresholds of rules, which are arguments.
"""
