"""Define the reports of commands, and render them for the terminal and as pages."""
