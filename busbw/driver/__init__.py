"""Start workers, send requests to workers, and kill workers that take too long.

This package imports neither a framework nor pytest, and judges no times. The package does not
import the code of workers either: a worker is a process of another interpreter, which runs a copy
of that code in a private folder. A Transport starts workers on this host or on other hosts. A Group
has the workers of a single launch. An Executor starts groups, and ends all groups of a session. A
RoundRunner decides the order of launches and cases.
"""
