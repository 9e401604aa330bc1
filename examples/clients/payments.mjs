// Pay, refund, search and cancel with the official client for Node (docs/clients.md).
//
// npm install mercadopago
// CODE=$(paydesk code) node payments.mjs   # in the folder in which `paydesk dev` runs
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { MercadoPagoConfig, OAuth, Order, WebhookSignatureValidator } from "mercadopago";
import { AppConfig } from "mercadopago/dist/utils/config/index.js";

const credentials = JSON.parse(readFileSync(".paydesk/credentials.json", "utf8"));
const accessToken = credentials.test.access_token;
AppConfig.BASE_URL = credentials.base_url; // over https: credentials.tls_base_url

const orders = () => new Order(new MercadoPagoConfig({ accessToken }));

const create = (terminalId, amount) =>
  orders().create({
    body: {
      type: "point",
      external_reference: "node-1",
      transactions: { payments: [{ amount }] },
      config: { point: { terminal_id: terminalId } },
    },
    requestOptions: { idempotencyKey: randomUUID() },
  });

async function ended(id) {
  for (let attempt = 0; attempt < 60; attempt++) {
    const order = await orders().get({ id });
    if (!["created", "at_terminal"].includes(order.status)) return order;
    await sleep(500);
  }
  throw new Error(`${id} did not end`);
}

const order = await ended((await create(credentials.terminals[0].id, "24.90")).id);
console.log("create:", order.status);

const transactions = [{ id: order.transactions.payments[0].id, amount: "4.90" }];
console.log("refund a part:", (await orders().refund({ id: order.id, body: { transactions } })).status_detail);
console.log("refund the rest:", (await orders().refund({ id: order.id })).status);
const found = await orders().search({ options: { external_reference: "node-1", limit: 10 } });
console.log("search:", found.data[0].id === order.id);

const { id } = await create(credentials.terminals.at(-1).id, "10.00");
const headers = { Authorization: `Bearer ${accessToken}`, "X-Allow-Cancelable-Status": "at_terminal" };
await orders().cancel({ id, requestOptions: { headers } });
console.log("cancel:", (await ended(id)).status);

try {
  await orders().create({ body: { type: "point" } });
} catch (error) {
  console.log("error:", error.status, error.error, error.message);
}

const application = { client_id: credentials.client_id, client_secret: credentials.client_secret };
const oauth = new OAuth(new MercadoPagoConfig({ accessToken: "none" }));
const first = await oauth.create({
  body: { ...application, code: process.env.CODE, redirect_uri: credentials.redirect_uri, test_token: true },
});
const next = await oauth.refresh({ body: { ...application, refresh_token: first.refresh_token } });
console.log("tokens:", first.live_mode, next.access_token.slice(0, 5));

const call = (path, options = {}) =>
  fetch(credentials.base_url + path, {
    ...options,
    headers: { Authorization: `Bearer ${accessToken}`, "Content-Type": "application/json" },
  });

const { terminals } = (await (await call("/terminals/v1/list")).json()).data;
console.log("terminals:", terminals.some((terminal) => terminal.id === credentials.terminals[0].id));

const sale = await create(credentials.terminals.at(-1).id, "12.00");
const simulated = await call(`/v1/orders/${sale.id}/events`, {
  method: "POST",
  body: JSON.stringify({ status: "processed" }),
});
console.log("simulate:", simulated.status, (await ended(sale.id)).status);

const delivery = (await (await call("/demo/inbox")).json()).data.at(-1);
WebhookSignatureValidator.validate({
  xSignature: delivery.headers["x-signature"],
  xRequestId: delivery.headers["x-request-id"],
  dataId: delivery.order_id.toLowerCase(),
  secret: credentials.webhook.secret,
  toleranceSeconds: 300,
});
console.log("webhook: valid");
