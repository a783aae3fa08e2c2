"""Output for people: lines of a terminal, and HTML pages."""
