"""What busbw does on one GPU that two processes share, in a few minutes: one JSON file, one table.

`python -m bench gpu --device=cpu` tries the same parts on the CPU. The processes are busbw's own
workers, or run a loop written by hand; this process imports no framework.
"""
