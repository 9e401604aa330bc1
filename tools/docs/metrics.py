"""The page of metrics: how Prometheus reads them, and a table of all that the code declares."""

from __future__ import annotations

import paydesk.service.serve  # noqa: F401 - the modules of a node declare their metrics
from paydesk.core.metrics import all_declared
from paydesk.platform.metrics.pages import PROCESSES, SILENT
from paydesk.platform.process.siblings import ANSWER_SECONDS_MAX
from tools.docs.markdown import page, table

_WAIT = f"{ANSWER_SECONDS_MAX:g} s"
_HEAD = f"""\
# Metrics

<!-- Written by `make generate` from `tools/docs/metrics.py` and the metrics that modules declare; do not edit. -->

`GET /metrics` says what a node does, in the text format of [Prometheus](https://prometheus.io/docs/): on the operators'
listener alone, with a token of its own. Nothing there is a secret, and no label has an id.

## Connect Prometheus

**Create a token** on the node, for the user that runs `paydesk serve`:

```text
umask 077
openssl rand -hex -out /etc/paydesk/metrics-token 32
chown paydesk /etc/paydesk/metrics-token
```

**Name it in the settings**: `metrics_token = "file:/etc/paydesk/metrics-token"`, or `env:NAME` for a variable of the
environment. Restart the node; with `--processes` SIGHUP is enough, also for a new token. `paydesk dev` needs none.

**Give Prometheus the same token**, in a file that only it can read:

```yaml
scrape_configs:
  - job_name: paydesk
    scrape_timeout: 5s
    authorization:
      credentials_file: /etc/prometheus/paydesk-token
    static_configs:
      - targets: ["127.0.0.1:8378"]
```

`curl --oauth2-bearer TOKEN http://127.0.0.1:8378/metrics` shows the page, or what to change:

| Response | Reason |
| --- | --- |
| 401 `unauthorized` | the token is missing or another; or the service has none: then `details` names `metrics_token` |
| 404 `not_found` | this is the clients' listener: use `operator_listen` |
| 421 `misdirected_request` | the name in the target is not known: add it to `host_names` |

The token is sent as it is: between machines put TLS before the listener.

## Nodes

Read each node at its own address, not through a load balancer. Prometheus adds `instance`. Sum in the query:

```text
sum by (operation) (rate(paydesk_http_requests_total[5m]))
```

A restart sets all counters to 0, which `rate` and `increase` see as a reset.

## Processes

With `paydesk serve --processes N` a page has all N processes, whichever of them answers. Samples have the label
`process`, the number that log lines have too; a process without siblings has none.

- **A process that does not answer within {_WAIT} is left out.** `{SILENT.name}` counts these, and `{PROCESSES.name}` is
  N, both without the label.
- **A process that was replaced** starts at 0 under the same number. After a kill, what it counted since the last page
  is lost; in a deployment (SIGHUP) its numbers vanish when the successor is ready.
- **An old process that drains** serves a page of its own numbers alone: alert on silent processes after minutes.
- **A parent of version 0.2.0** passes nothing on after it has deployed this version: replace it too.
- **Two parents on one port** (`--beside`) answer each for their own processes. A stopped process gives no page: `up` 0.

## All metrics

A histogram has samples with `_bucket`, `_sum` and `_count`. Times are in seconds."""


def page_of_metrics() -> str:
    """Return the page of all metrics, with type, labels and meaning."""
    rows = (
        (
            f"`{one.name}`",
            type(one).__name__.lower(),
            ", ".join(f"`{label}`" for label in one.labels) or "none",
            one.text,
        )
        for one in all_declared()
    )
    return page(_HEAD, table(("Metric", "Type", "Labels", "Meaning"), rows))
