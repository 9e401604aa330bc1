"""The files of `deploy/observability`: alerts, dashboard and configurations."""
