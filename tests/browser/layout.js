// Returns what is wrong with the layout of the page, in words.
() => {
  const faults = [], phone = innerWidth < 768, root = document.documentElement;
  const open = document.querySelector(":popover-open");
  const visible = { visibilityProperty: true, opacityProperty: true };
  const shown = it => it.checkVisibility(visible) && !it.closest(".sr, noscript");
  const within = open ?? document.body;
  const name = it => `${it.tagName.toLowerCase()}${it.id ? "#" + it.id : ""} "${it.textContent.trim().slice(0, 40)}"`;

  if (root.scrollWidth > innerWidth) faults.push("the page scrolls sideways");
  if (!phone && root.scrollHeight > innerHeight) faults.push("the page scrolls");

  // Texts: each node with letters, where its letters are, as far as the boxes that clip it let them be seen.
  const texts = [];
  const walker = document.createTreeWalker(within, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, it = node.parentElement;
    if (!node.textContent.trim() || !shown(it) || it.closest("select, [aria-hidden=true].strip")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      if (box.width < 1 || box.height < 1) continue;
      let seen = { left: box.left, top: box.top, right: box.right, bottom: box.bottom }, clipped = false;
      for (let outer = it; outer; outer = outer.parentElement) {
        const style = getComputedStyle(outer);
        if (style.overflowX === "visible" && style.overflowY === "visible") continue;
        const edge = outer.getBoundingClientRect();
        const scrolls = /auto|scroll/.test(style.overflowX + style.overflowY);
        const shortens = style.textOverflow === "ellipsis";
        if (shortens || (scrolls && outer.matches(".cards, .messages, .copies, .pop, pre"))) {
          // A list that scrolls, or a text with an ellipsis: what is beyond its edges is no fault here, but isn't seen.
          seen = { left: Math.max(seen.left, edge.left), top: Math.max(seen.top, edge.top),
            right: Math.min(seen.right, edge.right), bottom: Math.min(seen.bottom, edge.bottom) };
        } else if (outer !== document.body && outer !== root && (box.left < edge.left - 1 || box.right > edge.right + 1
          || box.top < edge.top - 3 || box.bottom > edge.bottom + 3)) clipped = true;
        if (outer === open) break;
      }
      if (clipped) faults.push(`cut off: ${name(it)}`);
      if (seen.right - seen.left > 1 && seen.bottom - seen.top > 1) texts.push({ ...seen, it, node });
    }
    if (it.scrollWidth > it.clientWidth + 1 && getComputedStyle(it).textOverflow === "ellipsis"
      && !it.title) faults.push(`shortened: ${name(it)}`);
  }

  // No two texts cover each other, and no text is under something else.
  for (const [number, one] of texts.entries()) {
    for (const other of texts.slice(0, number)) {
      if (one.node === other.node || one.it.contains(other.it) || other.it.contains(one.it)) continue;
      if (Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1
        && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 3)
        faults.push(`overlap: ${name(one.it)} and ${name(other.it)}`);
    }
    const x = (one.left + one.right) / 2, y = (one.top + one.bottom) / 2;
    if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) continue;
    const top = document.elementFromPoint(x, y);
    const sticky = phone && top?.closest(".tray") && one.it.closest(".side");
    if (top && top !== one.it && !one.it.contains(top) && !top.contains(one.it) && !sticky
      && !(top.matches("input") && top.closest("label")?.contains(one.it)))
      faults.push(`covered: ${name(one.it)} by ${name(top)}`);
  }

  // Words in buttons are inside them; targets are large enough.
  for (const it of within.querySelectorAll("button, summary, select, .how label")) {
    if (!shown(it)) continue;
    const box = it.getBoundingClientRect();
    const overflows = it.scrollWidth > it.clientWidth + 1 || it.scrollHeight > it.clientHeight + 1;
    if (it.textContent.trim() && !it.matches(".receipt") && overflows)
      faults.push(`too small for its words: ${name(it)}`);
    if (Math.min(box.height, box.width) < (phone ? 43.9 : 24)) faults.push(`small target: ${name(it)}`);
  }

  // The screen of the terminal doesn't scroll.
  const screen = document.querySelector(".scr");
  if (screen.scrollHeight > screen.clientHeight || screen.scrollWidth > screen.clientWidth)
    faults.push("the screen scrolls");
  return [...new Set(faults)];
}
