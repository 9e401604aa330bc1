// Get a token, refresh it and use it, without packages (docs/get-a-token.md).
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";

const credentials = JSON.parse(readFileSync(".paydesk/credentials.json", "utf8"));
const { client_id, client_secret, redirect_uri } = credentials;
const paydesk = await (await fetch(`${credentials.base_url}/.well-known/oauth-authorization-server`)).json();

async function requestTokens(parameters) {
  const answer = await fetch(paydesk.token_endpoint, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ client_id, client_secret, ...parameters }),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(`${body.error}: ${body.error_description}`);
  return body;
}

const state = randomBytes(16).toString("base64url");
const code_verifier = randomBytes(32).toString("base64url");
const address = new URL(paydesk.authorization_endpoint);
address.search = new URLSearchParams({
  response_type: "code",
  client_id,
  redirect_uri,
  state,
  scope: "offline_access read write",
  code_challenge: createHash("sha256").update(code_verifier).digest("base64url"),
  code_challenge_method: "S256",
});
console.log(`Open in a browser, sign in and agree:\n${address}`);
const terminal = createInterface({ input: process.stdin, output: process.stdout });
const response = new URL(await terminal.question("Paste the URL that you were redirected to:\n")).searchParams;
terminal.close();
if (response.get("state") !== state || response.get("iss") !== paydesk.issuer) throw new Error("state or iss differs");
if (response.has("error")) throw new Error(response.get("error_description"));

const grant = { grant_type: "authorization_code", code: response.get("code"), redirect_uri, code_verifier };
let tokens = await requestTokens({ ...grant, test_token: true });
tokens = await requestTokens({ grant_type: "refresh_token", refresh_token: tokens.refresh_token });

const headers = { Authorization: `Bearer ${tokens.access_token}` };
const listed = await (await fetch(`${credentials.base_url}/terminals/v1/list`, { headers })).json();
console.log(`The first terminal is ${listed.data.terminals[0].terminal_id}.`);
