"""The command `explain`: how a query was judged, or why a document has its score."""
