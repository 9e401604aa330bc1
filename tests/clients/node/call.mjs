// Calls of the official Node client, unmodified: each line on standard input is one call as JSON, with the base URL, the
// class, the method, the access token, the options and the arguments; its answer, or the error as users print it,
// is one line on standard output. The
// client's own configuration says which address it calls.
import { createInterface } from "node:readline";
import { inspect } from "node:util";
import mercadopago from "mercadopago";
import configuration from "mercadopago/dist/utils/config/index.js";

for await (const line of createInterface({ input: process.stdin })) {
  const { baseUrl, name, method, accessToken, options, given } = JSON.parse(line);
  configuration.AppConfig.BASE_URL = baseUrl;
  let answer;
  try {
    const client = new mercadopago[name](new mercadopago.MercadoPagoConfig({ accessToken, options }));
    answer = await client[method](given);
  } catch (error) {
    answer = { failure: error.name, status: error.status, error: error.error, message: error.message };
    Object.assign(answer, { causes: error.causes, asString: String(error), logged: inspect(error) });
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
