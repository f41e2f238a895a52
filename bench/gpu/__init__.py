"""Test busbw on one GPU that two processes share, in a few minutes.

The benchmark has six parts, and writes a JSON file. `--device=cpu` runs the same parts on the CPU.
On a GPU no part starts after four minutes. This process imports no framework.
"""
