/* The page of a virtual terminal: what htmx does not do. Without it every form works, only not live. */
(() => {
  "use strict";

  const WAYS = { t: "tap", i: "insert", s: "swipe", p: "phone" };
  const NOT_LIVE_AFTER_MS = 5000;
  const RETRY_MS = 4000;
  const DRAG_PX = 8;
  const FLIGHT_MS = 320;
  const one = (selector) => document.querySelector(selector);
  const stream = one("#stream");
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  // What the browser remembers between visits. -----------------------------------------------------------------------

  const remembered = {
    get(name, otherwise) {
      try {
        return localStorage.getItem(`paydesk-virtual-${name}`) ?? otherwise;
      } catch {
        return otherwise;
      }
    },
    set(name, value) {
      try {
        localStorage.setItem(`paydesk-virtual-${name}`, value);
      } catch {
        // Without storage it holds until the page is closed.
      }
    },
  };

  // The stream. ------------------------------------------------------------------------------------------------------

  let lastLive = new Date();
  let lostTimer = null;
  let isLive = false;
  let isConnecting = false;

  function watch() {
    if (document.hidden || isLive || isConnecting || stream._htmx?.sse) return;
    isConnecting = true;
    htmx.trigger(stream, "watch");
  }

  // htmx reads the page in a timer, perhaps before its extension for streams has been loaded.
  function start() {
    if (!one("#present")._htmx) {
      setTimeout(start, 20);
      return;
    }
    if (!stream._htmx) htmx.process(stream);
    document.addEventListener("visibilitychange", watch);
    setInterval(watch, RETRY_MS);
    watch();
  }

  function setLive(live) {
    if (live === isLive) return;
    isLive = live;
    clearTimeout(lostTimer);
    if (live) {
      one("#not-live").hidden = true;
    } else {
      lastLive = new Date();
      lostTimer = setTimeout(showLost, NOT_LIVE_AFTER_MS);
    }
  }

  function showLost() {
    if (document.hidden) {
      lostTimer = setTimeout(showLost, NOT_LIVE_AFTER_MS);
    } else if (!isLive) {
      one("#not-live").textContent = `Not live since ${clockOf(lastLive)}`;
      one("#not-live").hidden = false;
    }
  }

  document.addEventListener("htmx:sse:after:connection", (event) => {
    // A lost stream that cannot be opened again is tried every few seconds, not after longer and longer pauses.
    event.detail.connection.config.reconnectMaxDelay = RETRY_MS;
    isConnecting = false;
    setLive(true);
    // The extension does not notice that the tab was hidden while it connected. Once it reads, this makes it pause.
    if (document.hidden) setTimeout(() => document.dispatchEvent(new Event("visibilitychange")));
  });
  document.addEventListener("htmx:sse:before:connection", (event) => {
    if (event.detail.connection.attempt > 0) setLive(false);
  });
  document.addEventListener("htmx:sse:error", () => setLive(false));
  document.addEventListener("htmx:sse:close", () => setLive(false));
  document.addEventListener("htmx:finally:request", (event) => {
    if (event.target === stream) isConnecting = false;
  });

  document.addEventListener("htmx:config:request", (event) => {
    const { request } = event.detail.ctx;
    // The address has the key of the page, which is in the form already.
    delete request.headers["HX-Current-URL"];
    if (isLive && request.method === "POST") request.headers.Prefer = "return=minimal";
  });

  // Answers. ---------------------------------------------------------------------------------------------------------

  function hint(text) {
    const place = one("#new-order:popover-open #order-refused") ?? one("#hint");
    const line = document.createElement("p");
    line.textContent = text;
    place.replaceChildren(line);
    place.classList.add("refused");
    place.hidden = false;
    one("#say").textContent = text;
  }

  document.addEventListener("htmx:error", (event) => {
    if (event.target !== stream) hint("Not sent: the service does not answer. Try again.");
  });
  document.addEventListener("htmx:response:error", (event) => {
    const { response, request, text } = event.detail.ctx;
    if (request.method !== "POST" || text.startsWith("<hx-partial")) return;
    hint(response.status === 404 ? "This page is out of date: the terminal is gone. Open its new address."
      : `The service refused that (${response.status}). Try again.`);
  });
  document.addEventListener("htmx:after:request", (event) => {
    if (event.detail.ctx.response?.status < 400 && event.target.closest("#new-order")) one("#new-order").hidePopover();
  });
  one("#new-order").addEventListener("beforetoggle", () => { one("#order-refused").hidden = true; });

  // After each change of the page: the focus, the sound, the clock. --------------------------------------------------

  let focused = null;
  let shown = "";

  document.addEventListener("htmx:before:swap", () => {
    const active = document.activeElement;
    focused = active && active !== document.body ? { id: active.id, part: active.closest("#glass, #slot, #paper") } : null;
  });
  document.addEventListener("htmx:after:swap", () => {
    // A focused button that is gone leaves the focus to the screen it was on, not to the top of the page.
    if (focused?.part && document.activeElement === document.body) one("#glass").focus({ preventScroll: true });
    select(selected());
    tick();
    const { screen, order } = one("#glass").dataset;
    const outcome = `${screen} ${order}`;
    if (outcome !== shown) sound(screen);
    shown = outcome;
  });

  function clockOf(date) {
    return date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
  }

  function tick() {
    // The service's clock, which development moves, in the zone of the receipts.
    for (const clock of document.querySelectorAll("[data-clock]")) {
      clock.textContent = new Date(Date.now() + Number(clock.dataset.clock)).toISOString().slice(11, 16);
    }
    for (const count of document.querySelectorAll("[data-ends-ms]")) {
      const left = Math.max(0, Math.ceil((Number(count.dataset.endsMs) - Date.now()) / 1000));
      const text = left < 60 ? `${left} s` : `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
      const words = left <= Number(count.dataset.from) ? count.dataset.words.replace("{}", text) : "";
      if (count.textContent !== words) count.textContent = words;
    }
  }
  setInterval(() => document.hidden || tick(), 1000);

  // Cards: one is chosen, and it is presented by a press, by a key, or by dragging it to the terminal. ---------------

  const cards = () => [...document.querySelectorAll("#cards button")];
  const selected = () => one("#cards [aria-current]") ?? one("#cards button");

  function select(card) {
    for (const other of cards()) {
      if (other === card) other.setAttribute("aria-current", "true");
      else other.removeAttribute("aria-current");
    }
  }

  function present(card, way) {
    if (way) one(`.how input[value=${way}]`).checked = true;
    one("#present").requestSubmit(card.form.id === "present" ? card : undefined);
  }

  function flight(card, way) {
    if (still.matches || innerWidth < 768 || !card.animate) return;
    const from = card.querySelector(".mini").getBoundingClientRect();
    const device = one("#device").getBoundingClientRect();
    const ends = {
      tap: [device.left + device.width / 2 - 42, device.top - 20],
      insert: [device.left + device.width / 2 - 42, device.bottom - 16],
      swipe: [device.right - 30, device.top + 190],
    };
    const [x, y] = ends[way] ?? ends.tap;
    const ghost = lift(card);
    const motion = ghost.animate(
      [
        { transform: `translate(${from.left}px, ${from.top}px) scale(0.5)`, opacity: 0.4 },
        { transform: `translate(${x}px, ${y}px)`, opacity: 1, offset: 0.75 },
        { transform: `translate(${x}px, ${y + (way === "swipe" ? 90 : way === "insert" ? -14 : -6)}px)`, opacity: 0 },
      ],
      { duration: FLIGHT_MS * 1.4, easing: "ease-out" },
    );
    motion.onfinish = motion.oncancel = () => ghost.remove();
  }

  function lift(card) {
    const ghost = document.createElement("div");
    ghost.className = "ghost";
    ghost.setAttribute("aria-hidden", "true");
    ghost.style.left = ghost.style.top = "0";
    ghost.append(card.querySelector(".mini").cloneNode(true));
    document.body.append(ghost);
    return ghost;
  }

  document.addEventListener("submit", (event) => {
    const card = event.submitter;
    if (!card?.closest("#cards")) return;
    select(card);
    remembered.set("card", card.id);
    if (!card.dataset.dragged) flight(card, card.form.id === "scan" ? "tap" : one(".how :checked").value);
    delete card.dataset.dragged;
  }, true);

  let drag = null;

  function wayAt(x, y) {
    const device = one("#device").getBoundingClientRect();
    const margin = 70;
    if (x < device.left - margin || x > device.right + margin) return null;
    if (y < device.top - 110 || y > device.bottom + 110) return null;
    if (x > device.right - 40 && y > device.top + 60 && y < device.bottom - 60) return "swipe";
    if (y > device.bottom - 90) return "insert";
    return "tap";
  }

  document.addEventListener("pointerdown", (event) => {
    const card = event.target.closest?.("#cards button");
    if (card && event.button === 0) drag = { card, x: event.clientX, y: event.clientY, id: event.pointerId, ghost: null };
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag || event.pointerId !== drag.id) return;
    if (!drag.ghost) {
      if (Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < DRAG_PX) return;
      drag.ghost = lift(drag.card);
      drag.card.setPointerCapture(drag.id);
    }
    drag.ghost.style.transform = `translate(${event.clientX - 42}px, ${event.clientY - 27}px)`;
    one("#device").dataset.over = wayAt(event.clientX, event.clientY) ?? "";
  });
  function drop(event) {
    if (!drag || event.pointerId !== drag.id) return;
    const { card, ghost } = drag;
    drag = null;
    if (!ghost) return;
    ghost.remove();
    delete one("#device").dataset.over;
    // Ignore the click that follows a drag.
    addEventListener("click", (click) => click.preventDefault(), { capture: true, once: true });
    setTimeout(() => dispatchEvent(new Event("click", { cancelable: true })), 0);
    const way = event.type === "pointerup" ? wayAt(event.clientX, event.clientY) : null;
    if (!way) return;
    card.dataset.dragged = "yes";
    if (card.form.id === "scan") card.form.requestSubmit(card);
    else present(card, way);
  }
  document.addEventListener("pointerup", drop);
  document.addEventListener("pointercancel", drop);

  // Keys. ------------------------------------------------------------------------------------------------------------

  const TYPING = "input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]";
  let keysOn = remembered.get("keys", "on") === "on";

  function press(value) {
    const key = one(`.pad [value="${value}"]`);
    key.classList.add("down");
    setTimeout(() => key.classList.remove("down"), 120);
    key.form.requestSubmit(key);
  }

  function choose(step) {
    const all = cards();
    const next = all[(all.indexOf(selected()) + step + all.length) % all.length];
    select(next);
    remembered.set("card", next.id);
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (document.activeElement?.closest("#cards")) next.focus();
    one("#say").textContent = next.querySelector("span").firstChild.textContent;
  }

  function onKey(event) {
    const { key, target } = event;
    if (!keysOn || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return false;
    if (target.closest(TYPING) || one(":popover-open")) return false;
    const way = WAYS[key.toLowerCase()];
    const isRadio = target.matches("input[type=radio]");
    if (way) {
      const card = selected();
      if (card.form.id === "scan") card.form.requestSubmit(card);
      else present(card, way);
    } else if (/^[0-9.]$/.test(key)) press(key);
    else if (key === "Backspace") press("clear");
    else if (key === "Escape") press("cancel");
    else if (key === "ArrowDown" || key === "ArrowRight") {
      if (isRadio || target.closest(".messages")) return false;
      choose(1);
    } else if (key === "ArrowUp" || key === "ArrowLeft") {
      if (isRadio || target.closest(".messages")) return false;
      choose(-1);
    } else if (key === "Enter") {
      // On a button that was reached by keyboard, Enter presses that button, except while a PIN is typed.
      const isReached = target.matches("button, a, summary") && target.matches(":focus-visible");
      if (isReached && one("#glass").dataset.screen !== "pin") return false;
      press("ok");
    } else if (key === "?") {
      one("#keys").open = !one("#keys").open;
      one("#keys summary").focus();
    } else return false;
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (!event.repeat && onKey(event)) event.preventDefault();
  });

  // Sound. -----------------------------------------------------------------------------------------------------------

  let soundOn = remembered.get("sound", "off") === "on";
  let audio = null;

  function tone(hertz, at, seconds) {
    const oscillator = audio.createOscillator();
    const volume = audio.createGain();
    volume.gain.value = 0.08;
    oscillator.frequency.value = hertz;
    oscillator.connect(volume).connect(audio.destination);
    oscillator.start(audio.currentTime + at);
    oscillator.stop(audio.currentTime + at + seconds);
  }

  function sound(screen) {
    if (!soundOn || document.hidden) return;
    audio ??= new AudioContext();
    if (screen === "approved") tone(1500, 0, 0.5);
    if (screen === "declined") {
      tone(750, 0, 0.2);
      tone(750, 0.3, 0.2);
    }
  }

  // Switches. --------------------------------------------------------------------------------------------------------

  document.addEventListener("click", (event) => {
    const action = event.target.closest("[data-do]")?.dataset.do;
    if (action === "print") print();
    if (action !== "sound") return;
    soundOn = !soundOn;
    remembered.set("sound", soundOn ? "on" : "off");
    one("#sound").setAttribute("aria-pressed", soundOn);
    if (soundOn) sound("approved");
  });
  one("#keys-switch").addEventListener("change", (event) => {
    keysOn = event.target.checked;
    remembered.set("keys", keysOn ? "on" : "off");
  });
  one("#sound").setAttribute("aria-pressed", soundOn);
  one("#keys-switch").checked = keysOn;

  shown = `${one("#glass").dataset.screen} ${one("#glass").dataset.order}`;
  select(document.getElementById(remembered.get("card", "")) ?? selected());
  tick();
  start();
})();
