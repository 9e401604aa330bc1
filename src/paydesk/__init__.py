"""Paydesk: a self-hosted service for in-person payments."""

__version__ = "0.1.0"
