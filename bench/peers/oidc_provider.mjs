// oidc-provider as one would run it: production mode, PostgreSQL, opaque tokens, every refresh token used once.
// `node oidc_provider.mjs DATABASE_URL PORT CONNECTIONS FAMILIES SEED_FILE` seeds the families, writes what the load needs
// to know, and serves until SIGTERM.

import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { Provider } from 'oidc-provider';
import { Adapter, connect } from './adapter.mjs';

const [url, port, connections, families, seedFile] = process.argv.slice(2);
const SCOPE = 'offline_access read write';
const LIFETIME_SECONDS = 15_552_000;
const AT_ONCE = 50;

const secret = randomBytes(32).toString('base64url');
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });

const provider = new Provider(`http://127.0.0.1:${port}`, {
  adapter: Adapter,
  clients: [{
    client_id: 'bench',
    client_secret: secret,
    grant_types: ['authorization_code', 'refresh_token'],
    id_token_signed_response_alg: 'ES256',
    redirect_uris: ['https://bench.example/callback'],
    token_endpoint_auth_method: 'client_secret_post',
  }],
  cookies: { keys: [randomBytes(32).toString('base64url')] },
  features: { devInteractions: { enabled: false } },
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256' }] },
  rotateRefreshToken: true,
  scopes: ['offline_access', 'read', 'write'],
  ttl: { AccessToken: LIFETIME_SECONDS, Grant: LIFETIME_SECONDS, RefreshToken: LIFETIME_SECONDS },
});

async function mintChain(client, accountId) {
  const grant = new provider.Grant({ accountId, clientId: client.clientId });
  grant.addOIDCScope(SCOPE);
  const grantId = await grant.save();
  const token = new provider.RefreshToken({ accountId, client, grantId, gty: 'authorization_code', scope: SCOPE });
  return token.save();
}

async function mintChains(count) {
  const client = await provider.Client.find('bench');
  const tokens = [];
  while (tokens.length < count) {
    const batch = Array.from({ length: Math.min(AT_ONCE, count - tokens.length) }, (_, place) => tokens.length + place);
    tokens.push(...await Promise.all(batch.map((number) => mintChain(client, `seller-${number}`))));
  }
  return tokens;
}

await connect(url, Number(connections));
const refreshTokens = await mintChains(Number(families));
writeFileSync(seedFile, JSON.stringify({ client_id: 'bench', client_secret: secret, refresh_tokens: refreshTokens }));
const server = provider.listen(Number(port), '127.0.0.1');
process.on('SIGTERM', () => {
  server.close();
  process.exit(0);
});
