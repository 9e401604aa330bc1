// A client with generated types: creates, gets and refunds an order, and lists terminals.
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi.js";

type Order = components["schemas"]["Order"];
type RefundedOrder = components["schemas"]["RefundedOrder"];
type Terminal = components["schemas"]["Terminal"];

const { BASE_URL, ACCESS_TOKEN, TERMINAL_ID, PAID_ID } = process.env as Record<string, string>;
const client = createClient<paths>({ baseUrl: BASE_URL!, headers: { Authorization: `Bearer ${ACCESS_TOKEN}` } });

function found<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

const key = () => ({ "X-Idempotency-Key": crypto.randomUUID() });
const created: Order = found(
  await client.POST("/v1/orders", {
    params: { header: key() },
    body: {
      type: "point",
      transactions: { payments: [{ amount: "24.90" }] },
      config: { point: { terminal_id: TERMINAL_ID! } },
    },
  }),
);
const order: Order = found(await client.GET("/v1/orders/{order_id}", { params: { path: { order_id: created.id } } }));
const terminal: string = order.config.point.terminal_id;
const refunded: RefundedOrder = found(
  await client.POST("/v1/orders/{order_id}/refund", {
    params: { header: key(), path: { order_id: PAID_ID! } },
    body: { transactions: [{ id: `PAY${PAID_ID!.slice(3)}`, amount: "1.00" }] },
  }),
);
const terminals: Terminal[] = found(await client.GET("/terminals/v1/list")).data.terminals;
const refund = refunded.transactions.refunds[0]!.status;
console.log(JSON.stringify({ order: order.status, terminal, refund, terminals: terminals.length }));
