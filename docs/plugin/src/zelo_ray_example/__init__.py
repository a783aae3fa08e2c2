"""A protocol, a reranker and a measure for zelo_ray."""
