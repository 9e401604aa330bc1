// A receiver of webhooks with Express.
//
// npm install express standardwebhooks
// WEBHOOK_SECRET=whsec_… PORT=3000 node receiver_express.mjs
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import express from "express";
import { Webhook } from "standardwebhooks";

const FILE = "webhooks.jsonl";
const webhook = new Webhook(process.env.WEBHOOK_SECRET);
const notifications = new Set();
const versions = new Map();

// Returns false if the notification was applied before, or if a newer version of its order was.
function apply(notification) {
  if (notifications.has(notification.id)) return false;
  notifications.add(notification.id);
  if (notification.type !== "order") return true;
  const { id, version } = notification.data;
  if (version <= (versions.get(id) ?? 0)) return false;
  versions.set(id, version);
  return true;
}

// A file stands for your database here. It makes the receiver remember what it stored when it is started again.
if (existsSync(FILE)) {
  for (const line of readFileSync(FILE, "utf8").split("\n").filter(Boolean)) {
    try {
      apply(JSON.parse(line));
    } catch {
      console.error(`Skipped an incomplete line of ${FILE}`);
    }
  }
}

const app = express();

// The raw body: parsed and encoded again, it would have other bytes than those that were signed.
app.post("/webhooks", express.raw({ type: () => true, limit: "1mb" }), (request, response) => {
  let notification;
  try {
    notification = webhook.verify(request.body, request.headers);
  } catch {
    return response.status(401).send("The signature is not valid.");
  }
  // Stored first, applied then, answered last. The line feed comes first, as a crash can leave an incomplete line.
  appendFileSync(FILE, `\n${JSON.stringify(notification)}`, { flush: true });
  if (apply(notification) && notification.type === "order") {
    const { id, status, version } = notification.data;
    console.log(`${id} is ${status}, version ${version}`);
  }
  response.send("Stored.");
});

app.listen(process.env.PORT ?? 3000, "127.0.0.1");
