"""What fills the ledger and reads it, without Ray: money, limits, calls, batches, results."""
