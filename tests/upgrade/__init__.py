"""Upgrades: the version before goes on while the database is migrated, and the new one goes on with its data."""
