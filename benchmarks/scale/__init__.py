"""How runs grow with their queries, measured here, and what large ones would take.

See ``python -m benchmarks.scale --help``.
"""
