"""Acquirers that fail: the engine, killed, against hosts with ledgers of their own behind a faulty wire."""
