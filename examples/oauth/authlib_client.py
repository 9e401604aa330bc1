"""Get a token, refresh it and use it with Authlib (docs/get-a-token.md).

pip install authlib requests
"""

import json
from pathlib import Path

from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session

credentials = json.loads(Path(".paydesk/credentials.json").read_text())
paydesk = credentials["base_url"]
verifier = generate_token(48)
session = OAuth2Session(
    credentials["client_id"],
    credentials["client_secret"],
    token_endpoint_auth_method="client_secret_post",
    redirect_uri=credentials["redirect_uri"],
    scope="offline_access read write",
    code_challenge_method="S256",
)

address, state = session.create_authorization_url(f"{paydesk}/authorization", code_verifier=verifier)
print("Open in a browser, sign in and agree:", address, sep="\n")
redirected_to = input("Paste the URL that you were redirected to:\n")

session.fetch_token(
    f"{paydesk}/oauth/token",
    authorization_response=redirected_to,
    state=state,
    code_verifier=verifier,
    test_token="true",
)
tokens = session.refresh_token(f"{paydesk}/oauth/token")
print(f"The access token is valid for {tokens['expires_in'] // 86400} days.")

terminals = session.get(f"{paydesk}/terminals/v1/list").json()["data"]["terminals"]
print(f"The first terminal is {terminals[0]['terminal_id']}.")
