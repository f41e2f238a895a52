"""Measure what busbw does on one GPU that two processes share, in a few minutes.

Seven parts write a JSON file and a page. `--device=cpu` tries the same parts on the CPU. On a GPU
no part starts after four minutes. This process imports no framework.
"""
