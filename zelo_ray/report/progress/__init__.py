"""Progress of a run while it is at work, on the terminal."""
