"""What somebody does, by accident or on purpose, who wants a session green; `tox -e attacks`."""
