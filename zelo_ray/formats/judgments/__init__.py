"""Read judgments of all kinds: grades and qrels, votes and comparisons, people's labels."""
