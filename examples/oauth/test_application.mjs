// Get a test token without the field test_token (docs/get-a-token.md).
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import mercadopago from "mercadopago";
import configuration from "mercadopago/dist/utils/config/index.js";

const { base_url, test_application } = JSON.parse(readFileSync(".paydesk/credentials.json", "utf8"));
const { client_id, client_secret, redirect_uri } = test_application;
configuration.AppConfig.BASE_URL = base_url;
const oauth = new mercadopago.OAuth(new mercadopago.MercadoPagoConfig({ accessToken: "none yet" }));

const composed = oauth.getAuthorizationURL({ options: { client_id, redirect_uri, state: "sale-0042" } });
console.log(`Open in a browser, sign in and agree:\n${base_url}/authorization${new URL(composed).search}`);
const terminal = createInterface({ input: process.stdin, output: process.stdout });
const response = new URL(await terminal.question("Paste the URL that you were redirected to:\n")).searchParams;
terminal.close();

const tokens = await oauth.create({ body: { client_id, client_secret, redirect_uri, code: response.get("code") } });
console.log(`The token is for ${tokens.live_mode ? "live" : "test"} orders.`);
