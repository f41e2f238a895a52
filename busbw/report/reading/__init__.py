"""The documents that `--results` writes, read back as the values that they were made of.

Measured sessions, and compiled ones. Reads no file.
"""
