// OAuth clients on Node, unmodified and with their default of HTTP Basic: each line on standard input is the name of a
// library, the service's addresses, the application and a code as JSON. The library exchanges the code, refreshes the
// tokens and revokes the last ones. One line on standard output has what it got, or the error as users see it.
import { createInterface } from "node:readline";
import * as oauth from "oauth4webapi";
import { AuthorizationCode } from "simple-oauth2";

const insecure = { [oauth.allowInsecureRequests]: true };

const libraries = {
  async oauth4webapi({ server, clientId, clientSecret, redirectUri, code }) {
    const client = { client_id: clientId };
    const authentication = oauth.ClientSecretBasic(clientSecret);
    const redirected = new URLSearchParams({ code, state: "a state", iss: server.issuer });
    const parameters = oauth.validateAuthResponse(server, client, redirected, "a state");
    const exchanged = await oauth.authorizationCodeGrantRequest(
      server, client, authentication, parameters, redirectUri, oauth.nopkce, insecure,
    );
    const first = await oauth.processAuthorizationCodeResponse(server, client, exchanged);
    const refreshed = await oauth.refreshTokenGrantRequest(
      server, client, authentication, first.refresh_token, insecure,
    );
    const second = await oauth.processRefreshTokenResponse(server, client, refreshed);
    const introspected = await oauth.introspectionRequest(
      server, client, authentication, second.access_token, insecure,
    );
    const { active } = await oauth.processIntrospectionResponse(server, client, introspected);
    const revoked = await oauth.revocationRequest(server, client, authentication, second.refresh_token, insecure);
    await oauth.processRevocationResponse(revoked);
    return { first, second, active };
  },

  async "simple-oauth2"({ server, clientId, clientSecret, redirectUri, code }) {
    const { origin, pathname } = new URL(server.token_endpoint);
    const revokePath = new URL(server.revocation_endpoint).pathname;
    const client = new AuthorizationCode({
      client: { id: clientId, secret: clientSecret },
      auth: { tokenHost: origin, tokenPath: pathname, revokePath },
    });
    const first = await client.getToken({ code, redirect_uri: redirectUri });
    const second = await first.refresh();
    await second.revoke("refresh_token");
    return { first: first.token, second: second.token, active: null };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  let answer;
  try {
    answer = await libraries[given.library](given);
  } catch (error) {
    // oauth4webapi leaves the body to its user where it finds a challenge; simple-oauth2 has read it.
    const challenged = error instanceof oauth.WWWAuthenticateChallengeError;
    const body = challenged ? await error.response.json() : error.data?.payload;
    answer = { failure: error.name, error: error.error ?? body?.error ?? String(error.cause ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
