// The documentation works without this file: it finds while one types, keeps the language, and sends requests.
"use strict";

const find = document.querySelector("#find");
let typed = 0;
find?.addEventListener("input", async () => {
  const mine = ++typed, query = find.value.trim();
  await new Promise(later => setTimeout(later, 200));
  if (query.length < 2 || mine !== typed) return;
  let text;
  try {
    const answer = await fetch(`/docs/search?part=results&q=${encodeURIComponent(query)}`);
    text = answer.ok ? await answer.text() : `<p>${answer.status === 429 ? "Too many searches: try again in a minute." : "The search failed: press Enter."}</p>`;
  } catch {
    text = "<p>The service did not answer.</p>";
  }
  if (mine !== typed) return;
  const main = document.querySelector("main");
  const results = document.createElement("div");
  results.className = "results";
  results.innerHTML = text;
  main.replaceChildren(results);
  if (location.pathname === "/docs/search") history.replaceState(null, "", `/docs/search?q=${encodeURIComponent(query)}`);
});
document.addEventListener("keydown", event => {
  if (event.key === "/" && !event.target.matches("input, textarea")) {
    event.preventDefault();
    find?.focus();
  }
});

const languages = document.querySelectorAll(".tabs input");
for (const one of languages) {
  one.checked ||= one.value === localStorage.getItem("language");
  one.addEventListener("change", () => localStorage.setItem("language", one.value));
}
const copy = document.querySelector(".copy");
if (copy && navigator.clipboard) {
  copy.hidden = false;
  copy.addEventListener("click", () => {
    const shown = [...document.querySelectorAll(".code pre")].find(it => it.checkVisibility());
    navigator.clipboard.writeText(shown.innerText).then(() => copy.lastChild.data = " Copied");
  });
}

const form = document.querySelector(".send");
for (const one of form?.querySelectorAll("input") ?? []) one.value ||= sessionStorage.getItem(one.name) ?? "";
form?.addEventListener("submit", async event => {
  event.preventDefault();
  const output = form.querySelector("output"), button = form.querySelector("button");
  const parameters = Object.fromEntries([...form.querySelectorAll("input")].map(it => [it.name, it.value]).filter(([, value]) => value));
  if (form.querySelector("[name=X-Idempotency-Key]")) parameters["X-Idempotency-Key"] ||= crypto.randomUUID();
  const body = (form.querySelector("textarea")?.value ?? "").replace(/\s*\n\s*/g, " ");
  button.disabled = true;
  try {
    const answer = await fetch("/dev/docs", {
      method: "POST",
      headers: {"Content-Type": "application/json"},
      body: JSON.stringify({operation: form.dataset.operation, parameters, body}),
    });
    show(output, await answer.json());
  } catch (error) {
    output.textContent = `The service did not answer: ${error.message}`;
  }
  button.disabled = false;
});

function show(output, answer) {
  const lines = Object.entries(answer.headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  let text = answer.body ?? answer.message;
  try {
    const document = JSON.parse(text);
    // What was created is filled into the forms of other pages.
    if (document.id?.startsWith("ORD")) sessionStorage.setItem("order_id", document.id);
    text = JSON.stringify(document, null, 2);
  } catch { /* It is not JSON. */ }
  const status = document.createElement("p"), pre = document.createElement("pre");
  status.innerHTML = "<strong></strong>";
  status.firstChild.textContent = `Status ${answer.status}`;
  pre.textContent = `${lines.join("\n")}\n\n${text}`.trim();
  output.replaceChildren(status, pre);
}
