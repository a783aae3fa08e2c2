"""Reports of commands: what they are made of, and how a terminal and a page show them."""
