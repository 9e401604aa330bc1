/* The console: what the pages do besides links and forms. Without it everything works, only not live. */
(() => {
  "use strict";

  const NOT_LIVE_AFTER_MS = 5000;
  const RETRY_MS = 10000;
  const CROWDED_MS = 1000;
  const TIMES_MS = 5000;
  const COUNTS_MS = 1000;
  const FETCH_EVERY_MS = 250;
  const one = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];

  // The live part of the page. ---------------------------------------------------------------------------------------

  let stale = false;
  let fetching = false;
  let nextFetch = 0;
  let fetchTimer = null;

  /** Fetch the live part again, at most four times a second, and rarer where the service takes long. */
  function refresh() {
    stale = true;
    if (document.hidden || fetching || fetchTimer) return;
    fetchTimer = setTimeout(fetchLive, Math.max(0, nextFetch - performance.now()));
  }

  async function fetchLive() {
    fetchTimer = null;
    const live = one("#live");
    if (!live) return;
    stale = false;
    fetching = true;
    const started = performance.now();
    try {
      const headers = { "HX-Request": "true", "X-Paydesk-Background": "true" };
      const response = await fetch(location.href, { headers, redirect: "manual" });
      if (response.status === 401 || response.type === "opaqueredirect") location.reload();
      else if (response.ok) await show(live, await response.text());
    } catch {
      // The stream says that the service is away.
    }
    const took = performance.now() - started;
    nextFetch = performance.now() + Math.max(FETCH_EVERY_MS, 4 * took);
    fetching = false;
    if (stale) refresh();
  }

  async function show(live, html) {
    html = withoutNew(html);
    await htmx.swap({ sourceElement: live, target: live, swap: "innerMorph", text: html });
    document.dispatchEvent(new CustomEvent("paydesk:live"));
  }

  /** Keep new rows back while the top of their list is out of sight, so that nothing moves under the reader. */
  function withoutNew(html) {
    const list = one("[data-newest]"), button = one("#newer");
    if (!list || !button) return html;
    const fetched = document.createElement("template");
    fetched.innerHTML = html;
    const rows = [...fetched.content.querySelectorAll("[data-newest] > tr")];
    const fresh = list.getBoundingClientRect().top < 0 ? rows.filter((row) => !document.getElementById(row.id)) : [];
    button.hidden = !fresh.length;
    button.textContent = `${fresh.length} new`;
    if (!fresh.length) return html;
    const known = new Set(rows.map((row) => row.id));
    fresh.forEach((row) => row.remove());
    // The oldest rows, which the new ones have pushed off the page, stay too.
    const body = fetched.content.querySelector("[data-newest]");
    [...list.children].filter((row) => !known.has(row.id)).forEach((row) => body.append(row.cloneNode(true)));
    return fetched.innerHTML;
  }

  /** Say whether a message of the stream concerns this page: it names one of the nouns and ids of `data-live`. */
  function concerns(hints) {
    return (one("#live")?.dataset.live ?? "").split(" ").filter(Boolean).some((wanted) => {
      const at = wanted.indexOf(":");
      const noun = at < 0 ? wanted : wanted.slice(0, at);
      const ids = hints[noun];
      return ids !== undefined && (at < 0 || ids.length === 0 || ids.includes(wanted.slice(at + 1)));
    });
  }

  // The stream of hints. ---------------------------------------------------------------------------------------------

  let source = null;
  let lastId = one("#live")?.dataset.after ?? "";
  let lostTimer = null;
  let openTimer = null;
  let isCrowded = false;
  let lastLive = new Date();

  function watch() {
    if (document.hidden || source || !one("#live")?.dataset.live) return;
    source = new EventSource(`/console/events${lastId ? `?after=${encodeURIComponent(lastId)}` : ""}`);
    source.onopen = () => {
      clearTimeout(lostTimer);
      lostTimer = null;
      // A page that had no place waits for the message that it has none again.
      openTimer = setTimeout(hideLost, isCrowded ? CROWDED_MS : 0);
    };
    source.addEventListener("crowded", (event) => {
      isCrowded = true;
      close();
      showNotLive(event.data);
    });
    source.onmessage = (event) => {
      lastId = event.lastEventId;
      lastLive = new Date();
      if (concerns(JSON.parse(event.data))) refresh();
    };
    source.addEventListener("reset", (event) => {
      lastId = event.lastEventId;
      refresh();
    });
    source.onerror = () => {
      lostTimer ??= setTimeout(showLost, NOT_LIVE_AFTER_MS);
      if (source.readyState === EventSource.CLOSED) close();
    };
  }

  function close() {
    clearTimeout(openTimer);
    source?.close();
    source = null;
  }

  function hideLost() {
    isCrowded = false;
    all("[data-not-live]").forEach((pill) => (pill.hidden = true));
  }

  function showLost() {
    lostTimer = null;
    if (!document.hidden) showNotLive(`Not live since ${lastLive.toTimeString().slice(0, 5)}`);
  }

  function showNotLive(words) {
    for (const pill of all("[data-not-live]")) {
      pill.textContent = words;
      pill.hidden = false;
    }
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      close();
    } else {
      watch();
      if (stale) refresh();
    }
  });
  setInterval(() => {
    if (!document.hidden && !source && one("#live")?.dataset.live) {
      watch();
      refresh();
    }
  }, RETRY_MS);

  // Times. -----------------------------------------------------------------------------------------------------------

  // The clock of the service, which development moves, against that of the browser; each live part has its time.
  let skew = 0;

  function readClock() {
    skew = Number(one("#live [data-now]")?.dataset.now ?? Date.now()) - Date.now();
  }
  readClock();
  document.addEventListener("paydesk:live", readClock);

  function span(ms) {
    if (ms < 60000) return `${Math.floor(ms / 1000)} s`;
    if (ms < 3600000) return `${Math.floor(ms / 60000)} min`;
    return ms < 172800000 ? `${Math.floor(ms / 3600000)} h` : `${Math.floor(ms / 86400000)} days`;
  }

  function tick() {
    const now = Date.now() + skew;
    for (const time of all("time[data-ago]")) {
      const past = now - Date.parse(time.dateTime);
      const words = span(Math.abs(past));
      time.textContent = Math.abs(past) < 1000 ? "now" : past > 0 ? `${words} ago` : `in ${words}`;
    }
    // What is possible from an instant on is offered then.
    if (all("[data-due]").some((part) => Number(part.dataset.due) <= now)) refresh();
  }
  setInterval(tick, TIMES_MS);
  const every = Number(one("#live")?.dataset.every ?? 0);
  if (every) setInterval(refresh, every * 1000);

  /** Count what has not ended: the duration in the text becomes the time since the instant in `data-counts`. */
  function count() {
    const now = Date.now() + skew;
    for (const text of all("[data-counts]")) {
      const words = span(Math.max(0, now - Number(text.dataset.counts)));
      text.textContent = text.textContent.replace(/[\d.]+ (ms|s|min|h|days)\b/, words);
    }
  }
  setInterval(count, COUNTS_MS);

  // Clicks. ----------------------------------------------------------------------------------------------------------

  document.addEventListener("click", (event) => {
    if (event.target.closest("#newer")) {
      window.scrollTo(0, 0);
      refresh();
    } else if (event.target.closest("[data-copy]")) {
      copy(event.target.closest("[data-copy]"));
    }
  });

  function say(words) {
    one("#spoken").textContent = words;
  }

  async function copy(button) {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.classList.add("copied");
      setTimeout(() => button.classList.remove("copied"), 1500);
      say("Copied");
    } catch {
      say("The browser does not permit to copy");
    }
  }

  // The keyboard. ----------------------------------------------------------------------------------------------------

  function move(step) {
    const rows = all("[data-rows] a[data-row]");
    if (!rows.length) return;
    const at = rows.indexOf(document.activeElement);
    rows[Math.max(0, Math.min(rows.length - 1, at + step))].focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || one("#dialog").open) return;
    if (event.target.closest("input, select, textarea")) return;
    if (event.key === "/") {
      event.preventDefault();
      one("#q").focus();
    } else if (event.key === "?") {
      one("#dialog-body").replaceChildren(one("#keys").content.cloneNode(true));
      one("#dialog").showModal();
    } else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
  });

  watch();
})();
