// Create and cancel an order with the official client for Node in TypeScript (docs/clients.md).
import { readFileSync } from "node:fs";
import { MercadoPagoConfig, Order } from "mercadopago";
import { AppConfig } from "mercadopago/dist/utils/config/index.js";

type Created = Parameters<Order["create"]>[0]["body"];
type PointOrder = Omit<Created, "config"> & { config: { point: { terminal_id: string } } };

const credentials = JSON.parse(readFileSync(".paydesk/credentials.json", "utf8"));
const accessToken: string = credentials.test.access_token;
Object.assign(AppConfig, { BASE_URL: credentials.base_url });
const orders = () => new Order(new MercadoPagoConfig({ accessToken }));

const body: PointOrder = {
  type: "point",
  transactions: { payments: [{ amount: "24.90" }] },
  config: { point: { terminal_id: credentials.terminals.at(-1).id } },
};
const order = await orders().create({ body: body as Created });

const headers = { Authorization: `Bearer ${accessToken}`, "X-Allow-Cancelable-Status": "at_terminal" };
const requestOptions: object = { headers };
const canceled = await orders().cancel({ id: order.id!, requestOptions });
console.log("TypeScript:", order.status, canceled.id === order.id);
