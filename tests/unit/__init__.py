"""Tests of what cannot be seen from outside, in the folders of busbw/."""
