"""The console: pages for operators. Everything they read and change goes through `/operator/v1`."""
