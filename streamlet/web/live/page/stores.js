// The table of stores, and the search in one of them.

import { bytes, el, name, number, show, table } from "./elements.js";

const LISTS = new Set(["windows", "sessions", "versions"]);
const COLUMNS = ["key", "start", "end", "value", "timestamp", "valid_to", "headers"];
const found = { asked: null, entries: [], cursor: null };
let turn = 0;

// Whole numbers of 64 bits stay as they were written, where the browser can: its own would round.
function exact(key, value, context) {
  const rounds = typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER;
  return rounds && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
}

export function showStores(stores) {
  show(document.getElementById("store-table"), table(
    "Stores",
    ["Store", "Subtopology", "Keys", "Values", "Changelog records", "Bytes"],
    stores.map((one) => [
      name(one.name), number(one.subtopology), one.key ?? "–", one.value ?? "–", number(one.records), bytes(one.bytes),
    ]),
    "The topology has no store.",
  ));
  const choice = document.getElementById("search-store");
  const names = stores.map((one) => one.name);
  const listed = [...choice.options].map((one) => one.value);
  if (names.join("\0") !== listed.join("\0")) {
    const chosen = choice.value;
    choice.replaceChildren(...names.map((one) => el("option", { value: one }, one)));
    if (names.includes(chosen)) choice.value = chosen;
  }
}

// The address of what is asked for. "." and ".." are no names in an address, so they go as JSON.
export function addressOf({ store, what, key }, cursor) {
  const given = new URLSearchParams();
  let path = `/stores/${encodeURIComponent(store)}`;
  if (what === "prefix") given.set("prefix", key);
  if (what !== "prefix" && what !== "entries") {
    const dots = /^\.{1,2}$/.test(key);
    path += `/${encodeURIComponent(dots ? JSON.stringify(key) : key)}`;
    if (dots) given.set("key-format", "json");
    if (LISTS.has(what)) path += `/${what}`;
  }
  if (cursor) given.set("cursor", cursor);
  const query = given.toString();
  return query ? `${path}?${query}` : path;
}

async function search(asked, cursor) {
  const said = document.getElementById("search-said");
  const mine = (turn += 1);
  said.textContent = "Searching.";
  try {
    const answer = await fetch(addressOf(asked, cursor));
    const document_ = JSON.parse(await answer.text(), exact);
    if (mine !== turn) return; // another search has begun
    if (!answer.ok) throw new Error(document_.message ?? `status ${answer.status}`);
    const entries = document_.entries ?? [document_];
    found.entries = cursor ? [...found.entries, ...entries] : entries;
    found.cursor = document_.cursor ?? null;
    found.asked = asked;
    said.textContent = found.entries.length === 1 ? "One entry." : `${found.entries.length} entries.`;
  } catch (error) {
    if (mine !== turn) return;
    if (!cursor) [found.entries, found.cursor] = [[], null];
    said.textContent = error.message;
  }
  const heads = COLUMNS.filter((head) => found.entries.some((entry) => head in entry));
  show(document.getElementById("found"), found.entries.length > 0 && table(
    "Entries found",
    heads,
    found.entries.map((entry) => heads.map((head) =>
      head === "headers" ? name(headersText(entry[head] ?? [])) : text(entry[head]))),
    "",
  ));
  document.getElementById("more").hidden = found.cursor === null;
}

// Headers by name, as a record's are printed: the text of the bytes, or base64 where they are none.
function headersText(pairs) {
  return pairs.map(([header, raw]) => `${header}:${raw === null ? "null" : decoded(raw)}`).join(",");
}

function decoded(raw) {
  try {
    const bytes_ = Uint8Array.from(atob(raw), (letter) => letter.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes_);
  } catch {
    return raw;
  }
}

const text = (value) => (typeof value === "string" ? name(value) : JSON.stringify(value) ?? "");

export function startSearch() {
  document.getElementById("search").addEventListener("submit", (event) => {
    event.preventDefault();
    search(Object.fromEntries(new FormData(event.currentTarget)), null);
  });
  document.getElementById("more").addEventListener("click", () => search(found.asked, found.cursor));
}
