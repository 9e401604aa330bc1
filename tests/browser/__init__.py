"""Sellers in a real browser, in each language. `python -m tests.browser` takes the screenshots of docs/."""
