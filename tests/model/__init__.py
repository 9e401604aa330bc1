"""A model of orders, held against a running service: `tests/faults/README.md` says how it is run."""
