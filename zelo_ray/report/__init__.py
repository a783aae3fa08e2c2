"""What a command found, as the terminal, a page and a program see it."""
