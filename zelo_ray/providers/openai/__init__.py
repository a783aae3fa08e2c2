"""OpenAI and whatever speaks its protocol: chat completions, and batches."""
