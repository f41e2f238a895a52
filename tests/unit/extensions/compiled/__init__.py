"""Tests of busbw.extensions.compiled."""
