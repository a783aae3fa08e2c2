"""What the lean plan must do, measured: run ``python -m benchmarks.lean``."""
