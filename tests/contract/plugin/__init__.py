"""The plugin as a black box: pytest in a process of its own, through pytester."""
