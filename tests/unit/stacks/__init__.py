"""Tests of busbw.stacks."""
