"""Compare rerankers on the same documents, and test which differences are significant."""
