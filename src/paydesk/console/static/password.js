/* Shows what is typed into a password field, and hides it again. Without it the field stays hidden. */
(() => {
  "use strict";

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-show]");
    const field = button && document.getElementById(button.dataset.show);
    if (!field) return;
    const shown = field.type === "password";
    field.type = shown ? "text" : "password";
    button.textContent = shown ? "Hide" : "Show";
    button.setAttribute("aria-pressed", String(shown));
    field.focus();
  });

  // A browser keeps what is sent as text for its suggestions.
  document.addEventListener("submit", (event) => {
    for (const button of event.target.querySelectorAll("[data-show]")) {
      const field = document.getElementById(button.dataset.show);
      if (field) field.type = "password";
    }
  });
})();
