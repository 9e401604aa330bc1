"""Get a token, refresh it and use it with requests-oauthlib (docs/get-a-token.md).

pip install requests-oauthlib
"""

import json
import os
from pathlib import Path

from requests_oauthlib import OAuth2Session

os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"  # in development only
credentials = json.loads(Path(".paydesk/credentials.json").read_text())
paydesk, client_id, client_secret = (credentials[name] for name in ("base_url", "client_id", "client_secret"))
session = OAuth2Session(
    client_id, redirect_uri=credentials["redirect_uri"], scope=["offline_access", "read", "write"], pkce="S256"
)

address, _ = session.authorization_url(f"{paydesk}/authorization")
print("Open in a browser, sign in and agree:", address, sep="\n")
redirected_to = input("Paste the URL that you were redirected to:\n")

session.fetch_token(
    f"{paydesk}/oauth/token",
    authorization_response=redirected_to,
    include_client_id=True,
    client_secret=client_secret,
    test_token="true",
)
session.refresh_token(f"{paydesk}/oauth/token", client_id=client_id, client_secret=client_secret)

terminals = session.get(f"{paydesk}/terminals/v1/list").json()["data"]["terminals"]
print(f"The first terminal is {terminals[0]['terminal_id']}.")
