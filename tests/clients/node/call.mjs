// One call of the official Node client, unmodified: `node call.mjs BASE_URL CLASS METHOD`, the access token, the options
// and what the method is given are JSON on standard input, what it answers on standard output. Its own configuration
// says which address it calls.
import { readFileSync } from "node:fs";
import mercadopago from "mercadopago";
import configuration from "mercadopago/dist/utils/config/index.js";

const [baseUrl, name, method] = process.argv.slice(2);
const { accessToken, options, given } = JSON.parse(readFileSync(0, "utf8"));
configuration.AppConfig.BASE_URL = baseUrl;
const client = new mercadopago[name](new mercadopago.MercadoPagoConfig({ accessToken, options }));

let answer;
try {
  answer = await client[method](given);
} catch (error) {
  answer = { failure: error.name, status: error.status, error: error.error, message: error.message };
}
process.stdout.write(JSON.stringify(answer));
