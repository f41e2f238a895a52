"""Older versions of the frameworks; run by `tox -e old` only, since they must be downloaded."""
