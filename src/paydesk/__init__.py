"""Paydesk: a self-hosted service for in-person payments."""

__version__ = "0.2.0"
