"""Starts, feeds, times out and kills workers. Knows no framework, no pytest and no verdict.

It never imports the worker: it starts an interpreter on a private folder. A transport is where
processes run, a group the processes of one launch; the executor owns all groups, and a schedule
says in which order they run and how many at once.
"""
