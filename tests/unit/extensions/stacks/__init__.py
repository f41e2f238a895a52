"""Tests of busbw.extensions.stacks."""
