"""Sellers at a real browser, in each language. `python -m tests.browser` takes the pictures of docs/."""
