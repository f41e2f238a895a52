"""Starts, feeds, times out and kills workers. Knows no framework, no pytest and no verdict.

It never imports the worker: it starts an interpreter on a private folder. A transport starts
workers on this host or on others, a group has the workers of one launch; the executor ends all
groups, and a schedule says in which order they run and how many at once.
"""
