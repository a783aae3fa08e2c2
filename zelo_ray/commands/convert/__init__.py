"""Write pools, judgments and runs in other formats."""
