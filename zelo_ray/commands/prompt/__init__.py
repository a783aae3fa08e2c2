"""Show the exact requests to judges."""
