// The validators of webhooks on Node, unmodified: each line on standard input is a received request as JSON, with its URL,
// headers, body and the secret to validate it with; the answer is one line with what each validator says, empty if it
// accepts the request.
import { createInterface } from "node:readline";
import { WebhookSignatureValidator } from "mercadopago";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";

function verdict(validate) {
  try {
    validate();
    return "";
  } catch (error) {
    return String(error.reason ?? error.message);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { url, headers, body, secret } = JSON.parse(line);
  const said = {
    "mercadopago for Node": verdict(() =>
      WebhookSignatureValidator.validate({
        xSignature: headers["x-signature"],
        xRequestId: headers["x-request-id"],
        dataId: new URL(url).searchParams.get("data.id"),
        secret,
        toleranceSeconds: 300,
      }),
    ),
    "standardwebhooks for Node": verdict(() => new Webhook(secret).verify(body, headers)),
    "svix for Node": verdict(() => new SvixWebhook(secret).verify(body, headers)),
  };
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
