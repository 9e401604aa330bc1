"""Follow the events of one's orders (docs/events.md).

pip install requests
"""

import json
import uuid
from pathlib import Path

import requests

credentials = json.loads(Path(".paydesk/credentials.json").read_text())
base_url = credentials["base_url"]
session = requests.Session()
session.headers["Authorization"] = f"Bearer {credentials['test']['access_token']}"


def events(after=None, wait=0):
    """Yield every event after the cursor, with the cursor of its page."""
    while True:
        page = session.get(f"{base_url}/v1/events", params={"after": after, "wait": wait}, timeout=60)
        page.raise_for_status()
        after = page.json()["next"]
        for event in page.json()["data"]:
            yield event, after
        if not page.json()["data"]:
            return


# Skip earlier events. A real point of sale stores the last cursor with its sales.
after = None
for event, after in events():
    pass

terminal = requests.post(
    f"{base_url}/operator/v1/terminals",
    json={"script": "ignore"},
    headers={"Authorization": f"Bearer {credentials['operator']['token']}"},
    timeout=30,
).json()
order = session.post(
    f"{base_url}/v1/orders",
    json={
        "type": "point",
        "transactions": {"payments": [{"amount": "24.90"}]},
        "config": {"point": {"terminal_id": terminal["id"]}},
    },
    headers={"X-Idempotency-Key": str(uuid.uuid4())},
    timeout=30,
).json()
paid_with = {"payment_method_type": "credit_card", "payment_method_id": "master", "installments": 3}
for target in ({"status": "processed", **paid_with}, {"status": "refunded"}):
    done = session.post(f"{base_url}/v1/orders/{order['id']}/events", json=target, timeout=30)
    done.raise_for_status()

for event, after in events(after, wait=1):
    if event["data"]["id"] == order["id"]:
        print(event["data"]["version"], event["action"], event["data"]["status"])
