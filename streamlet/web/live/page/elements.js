// Elements made of text from anywhere. Nothing here takes HTML: a text is only ever a text.

const SVG = "http://www.w3.org/2000/svg";

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
  }
  return node;
}

export const el = (tag, attributes, ...children) =>
  made(document.createElement(tag), attributes, children);

export const svg = (tag, attributes, ...children) =>
  made(document.createElementNS(SVG, tag), attributes, children);

// A name from outside: its direction of writing ends with it.
export const name = (text) => el("bdi", {}, text);

// Make the children of a parent equal to new ones; elements that stay keep focus and selection.
export function show(parent, ...children) {
  const wanted = el("div", {}, ...children);
  morph(parent, wanted);
}

function morph(old, wanted) {
  const news = [...wanted.childNodes];
  const olds = [...old.childNodes];
  news.forEach((next, index) => {
    const have = olds[index];
    if (have === undefined) {
      old.append(next);
    } else if (have.nodeType !== next.nodeType || have.nodeName !== next.nodeName) {
      have.replaceWith(next);
    } else if (next.nodeType === Node.TEXT_NODE) {
      if (have.data !== next.data) have.data = next.data;
    } else {
      attributesOf(have, next);
      morph(have, next);
    }
  });
  olds.slice(news.length).forEach((gone) => gone.remove());
}

function attributesOf(have, next) {
  for (const { name: attribute } of [...have.attributes]) {
    if (!next.hasAttribute(attribute) && attribute !== "open") have.removeAttribute(attribute);
  }
  for (const { name: attribute, value } of next.attributes) {
    if (have.getAttribute(attribute) !== value) have.setAttribute(attribute, value);
  }
}

// A table that scrolls by itself where the page is narrow.
export function table(label, heads, rows, empty) {
  if (rows.length === 0) return el("p", { class: "quiet" }, empty);
  return el(
    "div",
    { class: "scrolls", tabindex: 0, role: "region", "aria-label": label },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell))))),
    ),
  );
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));

export const rate = (value) =>
  value === null || value === undefined ? "–" : `${(value < 10 ? few : whole).format(value)}/s`;

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${few.format(value)} ${units[unit]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${whole.format(ms)} ms`;
  if (ms < 60_000) return `${few.format(ms / 1000)} s`;
  if (ms < 3_600_000) return `${whole.format(Math.floor(ms / 60_000))} min ${whole.format((ms % 60_000) / 1000)} s`;
  return `${whole.format(Math.floor(ms / 3_600_000))} h ${whole.format((ms % 3_600_000) / 60_000)} min`;
}

export function delay(found) {
  if (found === null || found === undefined) return "–";
  if (found.ms === 0) return "< 1 s";
  return `${found.at_least ? "≥ " : ""}${duration(found.ms)}`;
}

// A time for machines; null: it is none, as of a clock that is wrong.
export const instant = (ms) => (Number.isNaN(new Date(ms).getTime()) ? null : new Date(ms).toISOString());

export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
