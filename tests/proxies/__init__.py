"""Paydesk behind the proxies of `deploy/proxy` and behind PgBouncer."""
