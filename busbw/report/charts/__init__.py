"""The charts of sessions and histories, a file each: what is shown; draws and reads nothing."""
