// One call of the official Node client, unmodified: `node oauth.mjs BASE_URL METHOD`, what it is given and what it
// answers are JSON on standard input and output. Its own configuration says which address it calls.
import { readFileSync } from "node:fs";
import mercadopago from "mercadopago";
import configuration from "mercadopago/dist/utils/config/index.js";

const [baseUrl, method] = process.argv.slice(2);
configuration.AppConfig.BASE_URL = baseUrl;
const oauth = new mercadopago.OAuth(new mercadopago.MercadoPagoConfig({ accessToken: "none" }));

let answer;
try {
  answer = await oauth[method](JSON.parse(readFileSync(0, "utf8")));
} catch (error) {
  answer = { failure: error.name, status: error.status, error: error.error, message: error.message };
}
process.stdout.write(JSON.stringify(answer));
