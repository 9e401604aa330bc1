// Where oidc-provider keeps what it issues: one table, one durable commit for each write, as its documentation asks.

import pg from 'pg';

const TABLE = `
CREATE TABLE IF NOT EXISTS oidc_payloads (
    model     text   NOT NULL,
    id        text   NOT NULL,
    payload   jsonb  NOT NULL,
    grant_id  text,
    user_code text,
    uid       text,
    expires   timestamptz,
    consumed  timestamptz,
    PRIMARY KEY (model, id)
);
CREATE INDEX IF NOT EXISTS oidc_payloads_grant ON oidc_payloads (grant_id) WHERE grant_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS oidc_payloads_uid ON oidc_payloads (model, uid) WHERE uid IS NOT NULL;
CREATE INDEX IF NOT EXISTS oidc_payloads_user_code ON oidc_payloads (model, user_code) WHERE user_code IS NOT NULL`;

const UPSERT = `
INSERT INTO oidc_payloads (model, id, payload, grant_id, user_code, uid, expires)
VALUES ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7))
ON CONFLICT (model, id) DO UPDATE SET payload = excluded.payload, grant_id = excluded.grant_id,
    user_code = excluded.user_code, uid = excluded.uid, expires = excluded.expires`;

const FIND = 'SELECT payload, expires < now() AS expired, consumed FROM oidc_payloads WHERE model = $1 AND ';

let pool;

/** Connect, and make the table; with as many connections as Paydesk has. */
export async function connect(url, connections) {
  pool = new pg.Pool({ connectionString: url, max: connections, min: connections, idleTimeoutMillis: 0 });
  await pool.query(TABLE);
}

/** Prepared once on each connection, under its name. */
const run = (name, text, values) => pool.query({ name, text, values });

/** One model's rows; oidc-provider makes one of these for each of its models. */
export class Adapter {
  constructor(model) {
    this.model = model;
  }

  async upsert(id, payload, expiresIn) {
    const { grantId, userCode, uid } = payload;
    const text = JSON.stringify(payload);
    await run('upsert', UPSERT, [this.model, id, text, grantId, userCode, uid, expiresIn]);
  }

  find(id) {
    return this.#one('id', id);
  }

  findByUid(uid) {
    return this.#one('uid', uid);
  }

  findByUserCode(userCode) {
    return this.#one('user_code', userCode);
  }

  async #one(column, value) {
    const { rows: [row] } = await run(`find by ${column}`, `${FIND} ${column} = $2`, [this.model, value]);
    if (!row || row.expired) return undefined;
    return row.consumed ? { ...row.payload, consumed: Math.floor(row.consumed / 1000) } : row.payload;
  }

  async consume(id) {
    await run('consume', 'UPDATE oidc_payloads SET consumed = now() WHERE model = $1 AND id = $2', [this.model, id]);
  }

  async destroy(id) {
    await run('destroy', 'DELETE FROM oidc_payloads WHERE model = $1 AND id = $2', [this.model, id]);
  }

  async revokeByGrantId(grantId) {
    await run('revoke', 'DELETE FROM oidc_payloads WHERE model = $1 AND grant_id = $2', [this.model, grantId]);
  }
}
