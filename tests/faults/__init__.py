"""What breaks around the service, and whether its promises hold all the same. `python -m tests.faults` runs it long."""
