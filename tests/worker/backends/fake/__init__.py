"""On what is scripted."""
