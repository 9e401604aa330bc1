/* The forms of the console: in the dialog of another page, and sent without losing what was typed.
   Without it each form is a page of its own. */
(() => {
  "use strict";

  const one = (selector) => document.querySelector(selector);
  const FIELDS = "input:not([type=hidden]), select, textarea";
  const COUNTED_FROM = 0.8;
  const ONCE_MORE = "Sending it again is safe: it takes effect once.";
  const LOOK_FIRST = "Look whether it was done before you send it again.";

  const UNANSWERED = `<div class="action"><h1 id="dialog-title">The service does not answer</h1><p>Nothing was done. Try again later.</p>
    <p class="buttons"><button type="button" data-close>Back</button></p></div>`;

  // The dialog. ------------------------------------------------------------------------------------------------------

  /** Show a form or another part of a page in the dialog, with the focus where a person goes on. */
  function open(html) {
    one("#dialog-body").innerHTML = html;
    if (!one("#dialog").open) one("#dialog").showModal();
    focus(one("#dialog-body"));
  }

  function focus(part) {
    // A form without fields that ends something begins at "Back": Enter, pressed twice, changes nothing.
    const wanted = [".action [autofocus]", `[aria-invalid=true]`, FIELDS, ".action:has(button.danger) [data-close]", "button, a.button"];
    wanted.map((selector) => part.querySelector(selector)).find(Boolean)?.focus();
  }

  async function ask(link) {
    let response;
    try {
      response = await fetch(link.href, { headers: { "HX-Request": "true" } });
    } catch {
      open(UNANSWERED);
      return;
    }
    if (response.ok) open(await response.text());
    else location.href = link.href;
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-dialog]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      ask(link);
    } else if (event.target.closest("#dialog [data-close]")) {
      event.preventDefault();
      one("#dialog").close();
    }
  });

  // A secret is shown once: only its button closes it.
  one("#dialog").addEventListener("cancel", (event) => {
    if (one("#dialog .secret")) event.preventDefault();
  });

  // Sending. ---------------------------------------------------------------------------------------------------------

  /** Send a form. Whatever happens, what was typed stays until the next page is there. */
  async function send(form, button) {
    const sent = new URLSearchParams(new FormData(form, button));
    const action = form.getAttribute("action");
    busy(form, true);
    say(form, []);
    try {
      if (form.dataset.outdated && !(await renew(form, action, sent))) return signedOut(form, action);
      const response = await fetch(action, { method: "POST", body: sent, headers: { "HX-Request": "true" } });
      const next = response.headers.get("HX-Redirect"), text = await response.text();
      if (response.status === 401) signedOut(form, action);
      else if (response.status === 403 && !text) outdated(form);
      else if (response.status >= 500) say(form, ["The service could not answer. It is not known whether this was done.", advice(form)]);
      else if (next) return location.assign(next);
      else if (/^\s*<!doctype/i.test(text)) say(form, [sentenceOf(text)]);
      else show(form, text);
    } catch {
      say(form, ["The service does not answer, so nothing is known to have happened. What you typed stays here.", advice(form)]);
    }
    busy(form, false);
  }

  /** Put the form that the service answered in the place of the one that was sent. */
  function show(form, html) {
    if (!form.matches(".action") || form.closest("dialog")) {
      open(html);
      return;
    }
    const parent = form.parentElement;
    form.outerHTML = html;
    focus(parent);
  }

  const advice = (form) => ("repeatable" in form.dataset ? ONCE_MORE : LOOK_FIRST);

  function busy(form, is) {
    form.setAttribute("aria-busy", is);
    form.querySelectorAll("button").forEach((button) => (button.disabled = is));
  }

  function outdated(form) {
    form.dataset.outdated = "true";
    say(form, ["You have signed in again since this form was opened, so nothing was done. Send it again."]);
  }

  function signedOut(form, action) {
    form.dataset.outdated = "true";
    say(form, ["You are signed out, so nothing was done. What you typed stays here."], action);
    busy(form, false);
  }

  /** Take the token of the present session into what is sent; return whether there is a session. */
  async function renew(form, action, sent) {
    const page = document.createElement("template");
    const response = await fetch(action, { headers: { "HX-Request": "true" } });
    page.innerHTML = response.ok ? await response.text() : "";
    const token = page.content.querySelector("[name=form_token]");
    if (!token) return false;
    form.querySelector("[name=form_token]").value = token.value;
    sent.set("form_token", token.value);
    delete form.dataset.outdated;
    return true;
  }

  /** Say sentences above the buttons of a form; with a path also the link that signs in. */
  function say(form, sentences, path = "") {
    form.querySelector("[data-trouble]")?.remove();
    if (!sentences.length) return;
    const notice = document.createElement("div"), words = document.createElement("div");
    notice.className = "notice bad";
    notice.dataset.trouble = "";
    notice.setAttribute("role", "alert");
    for (const sentence of sentences) words.append(paragraph(sentence));
    if (path) {
      const link = document.createElement("a");
      link.href = `/console/sign-in?return_to=${encodeURIComponent(path)}`;
      link.target = "_blank";
      link.rel = "noopener";
      link.textContent = "Sign in in another tab";
      const then = paragraph("");
      then.append(link, ", then send this form again.");
      words.append(then);
    }
    notice.append(words);
    const buttons = form.querySelector(".buttons");
    if (buttons) buttons.before(notice);
    else form.append(notice);
  }

  function paragraph(text) {
    const made = document.createElement("p");
    made.textContent = text;
    return made;
  }

  function sentenceOf(html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    return page.querySelector("main p")?.textContent ?? "The service refused this.";
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.getAttribute("method") !== "post") return;
    if ("send" in form.dataset) {
      event.preventDefault();
      send(form, event.submitter);
    } else {
      // One click sends a form once; the idempotency key in it guards against the rest.
      setTimeout(() => busy(form, true));
    }
  });
  window.addEventListener("pageshow", () => document.querySelectorAll("form[aria-busy=true]").forEach((form) => busy(form, false)));

  // Limits. ----------------------------------------------------------------------------------------------------------

  /** Count the characters of a field near its limit; the service refuses longer texts, nothing is cut. */
  document.addEventListener("input", (event) => {
    const field = event.target, most = Number(field.dataset?.max ?? 0), length = [...field.value].length;
    if (!most || !field.parentElement.matches(".field")) return;
    let count = field.parentElement.querySelector(".count");
    if (length <= COUNTED_FROM * most) return count?.remove();
    if (!count) {
      count = document.createElement("span");
      field.after(count);
    }
    count.className = length > most ? "count fault" : "count faint";
    count.textContent = `${length} of ${most} characters`;
  });
})();
