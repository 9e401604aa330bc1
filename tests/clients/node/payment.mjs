// A whole payment with the official Node client, unmodified and unconfigured: its address is the vendor's. Standard input
// has the client's credentials, a code and a terminal as JSON; standard output gets each answer.
import { setTimeout as sleep } from "node:timers/promises";
import { text } from "node:stream/consumers";
import { MercadoPagoConfig, OAuth, Order } from "mercadopago";

const { client_id, client_secret, redirect_uri, code, terminal_id } = JSON.parse(await text(process.stdin));
const body = { client_id, client_secret, redirect_uri, code, grant_type: "authorization_code", test_token: "true" };
const anonymous = new MercadoPagoConfig({ accessToken: "none" });
const token = await new OAuth(anonymous).create({ body });
const authorization = new OAuth(anonymous).getAuthorizationURL({ options: { client_id, redirect_uri, state: "a state" } });
const orders = new Order(new MercadoPagoConfig({ accessToken: token.access_token }));
// The client has no class for terminals.
const listed = await fetch("https://api.mercadopago.com/terminals/v1/list", {
  headers: { Authorization: `Bearer ${token.access_token}` },
});
const terminals = await listed.json();
const payment = { payments: [{ amount: "24.90" }] };
const order = await orders.create({
  body: { type: "point", transactions: payment, config: { point: { terminal_id } } },
});
let paid = order;
for (const endsAt = Date.now() + 30000; paid.status !== "processed" && Date.now() < endsAt; await sleep(100)) {
  paid = await orders.get({ id: order.id });
}
const refunded = await orders.refund({ id: order.id });
process.stdout.write(JSON.stringify({ token, terminals, paid, refunded, authorization }));
