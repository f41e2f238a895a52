"""Optional features, each in a folder that can be deleted."""
