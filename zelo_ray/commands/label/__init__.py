"""Let people judge documents or pairs."""
