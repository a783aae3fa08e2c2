"""OpenAI and servers that speak its protocol: chat completions and batches."""
