#!/bin/sh
# The first live payment, as in production but on one machine: the example switch and the reference client stand for
# your switch and your terminal. Run it in an empty folder, with the path of a checkout in PAYDESK and its .venv/bin in
# the PATH.
set -eu

# The switch, its secret, and the service.
umask 077
mkdir -p .paydesk/examples
value() { awk -v name="$1" '$1 == name { print $2 }'; }
openssl rand -hex 32 >.paydesk/examples/switch.key
python3 "$PAYDESK/examples/switch/switch.py" --listen 127.0.0.1:9010 --needs-confirmation \
  --secret-file .paydesk/examples/switch.key >.paydesk/examples/switch.log 2>&1 &
cat >.paydesk/examples/acquirers.toml <<'END'
[acquirers.main]
adapter = "http"
url = "http://127.0.0.1:9010/paydesk"
key_id = "shop-1"
secret = "file:.paydesk/examples/switch.key"
capabilities = { needs_confirmation = true }
END
export PAYDESK_ACQUIRERS_FILE=.paydesk/examples/acquirers.toml PAYDESK_ACQUIRER=main PAYDESK_PUBLIC_URL=http://127.0.0.1:8377
paydesk keys add
paydesk migrate
PAYDESK_OPERATOR_TOKEN=$(paydesk operators create --name setup | value token)
export PAYDESK_OPERATOR_TOKEN PAYDESK_BASE_URL=http://127.0.0.1:8378
paydesk serve >.paydesk/examples/serve.log 2>&1 &
until paydesk acquirers test main; do sleep 1; done

# An application and a seller, whose browser takes the code to the redirect URI. Open the address that is printed, sign in
# with the e-mail address and password above it, agree, and paste the address that you are redirected to: nothing needs
# to answer there.
APP=$(paydesk apps create --name Shop --redirect-uri https://shop.example/callback)
paydesk sellers create --email ana@shop.example --name Ana --country BRA --currency BRL | tee .paydesk/examples/seller.txt
CLIENT_ID=$(echo "$APP" | value client_id) SELLER=$(value user_id <.paydesk/examples/seller.txt)
paydesk authorize-url --client-id "$CLIENT_ID" --redirect-uri https://shop.example/callback --base-url "$PAYDESK_PUBLIC_URL"
read -r REDIRECTED_TO

# The token.
CODE=$(printf %s "$REDIRECTED_TO" | sed -E 's/.*[?&]code=([^&]*).*/\1/')
TOKEN=$(curl -sS "$PAYDESK_PUBLIC_URL/oauth/token" -d grant_type=authorization_code -d client_id="$CLIENT_ID" -d code="$CODE" \
  -d client_secret="$(echo "$APP" | value client_secret)" -d redirect_uri=https://shop.example/callback |
  grep -oE '"access_token": ?"[^"]*' | cut -d '"' -f 4)
echo "{\"base_url\": \"$PAYDESK_PUBLIC_URL\", \"live\": {\"access_token\": \"$TOKEN\"}}" >.paydesk/examples/credentials.json

# The sale, at a terminal of kind `service`, for which Paydesk asks the acquirer.
python3 "$PAYDESK/examples/terminal.py" "$PAYDESK_PUBLIC_URL" >.paydesk/examples/terminal.log &
until grep -q 'pairing code' .paydesk/examples/terminal.log; do sleep 1; done
paydesk terminals pair "$(sed 's/.* //' .paydesk/examples/terminal.log)" --seller "$SELLER" --kind service --yes
paydesk terminals change EXAMPLE__4711 --mode PDV
shop() { paydesk orders "$@" --live --credentials .paydesk/examples/credentials.json; }
ORDER=$(shop create 24.90 --terminal EXAMPLE__4711 --json | grep -oE 'ORD[0-9A-Z]{26}' | head -n 1)
shop watch "$ORDER"
shop refund "$ORDER"
paydesk orders get "$ORDER"
