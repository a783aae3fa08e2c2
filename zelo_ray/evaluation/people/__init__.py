"""Use people's labels in a bake-off that a panel judged."""
