"""Tests of busbw; they mirror its folders."""
