"""Fill the ledger and read it, without Ray: money, limits, calls, batches, results."""
