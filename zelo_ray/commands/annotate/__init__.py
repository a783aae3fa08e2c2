"""`annotate`: judges score pools of documents, and the scores are reported."""
