// The live page: asks for each document as soon as it is there, and shows it.

import { bytes, clock, delay, duration, el, instant, name, number, rate, show, svg, table } from "./elements.js";
import { showGraph } from "./graph.js";
import { showSimulator, startSimulator } from "./simulator.js";
import { showStores, startSearch } from "./stores.js";

// How long after a new document is due it is asked for, and when one that does not come is.
const BEHIND_MS = 50;
const AGAIN_MS = 800;
const OLD_MS = 2000;
const ROLES = ["active", "learner", "standby", "pending", "released"];
const STRIP_MS = 10 * 60_000;
const EVENTS = 50;

const byId = (id) => document.getElementById(id);
let seenAt = null;
let problem = null;

async function ask() {
  let next = AGAIN_MS;
  try {
    const answer = await fetch("/live.json", { signal: AbortSignal.timeout(15_000) });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.message ?? `status ${answer.status}`);
    problem = found.problem;
    showSimulator(found.simulator);
    if (found.document !== null) {
      seenAt = performance.now() - found.age_ms;
      if (problem === null) next = found.next_ms + BEHIND_MS;
      showAll(found.document);
    }
  } catch (error) {
    problem = `The server does not answer: ${error.message}`;
  }
  showAge();
  setTimeout(ask, Math.max(100, next));
}

function showAge() {
  const age = seenAt === null ? null : performance.now() - seenAt;
  const place = byId("age");
  const old = problem !== null || (age !== null && age > OLD_MS);
  place.className = old ? "problem" : "quiet";
  const text = age === null ? "Nothing has been read yet." : `As of ${duration(Math.round(age / 1000) * 1000)} ago.`;
  const all = old ? `${text} ${problem ?? ""}` : age === null ? text : "Up to date.";
  if (place.textContent !== all) place.textContent = all;
}

function showAll(found) {
  const { status } = found;
  document.title = `${found.application}, streamlet`;
  show(byId("application"), name(found.application));
  showGroup(status);
  showTotals(found);
  showGraph(found.graph);
  showInstances(status.instances);
  showMoves(status.handovers);
  showTimeline(found);
  showStores(found.stores);
  showErrors(found);
}

function showGroup({ group, paused, leader }) {
  show(
    byId("group"),
    el("strong", { class: `state ${group.state}` }, group.state),
    group.mode && ` ${group.mode},`,
    group.generation !== null && ` generation ${group.generation}`,
    group.leader && [", led by ", name(group.leader)],
    paused.map((one) => el("span", { class: "badge" }, one.subtopology === null ? "paused" : `subtopology ${one.subtopology} paused`)),
  );
}

function showTotals({ totals, letters }) {
  const dead = letters === null ? null : letters.reduce((sum, one) => sum + (one.records ?? 0), 0);
  const shown = [
    ["Instances", number(totals.instances)],
    ["Active tasks", number(totals.tasks)],
    ["Records processed", rate(totals.rate)],
    ["Lag", number(totals.lag)],
    ["Arrival to commit", delay(totals.delay)],
    ["End-to-end latency", duration(totals.latency)],
    ["Late", number(totals.late)],
    ["Dropped", number(totals.dropped)],
    ["Dead letters", number(dead)],
  ];
  show(byId("totals"), shown.map(([head, text]) => el("div", {}, el("dt", {}, head), el("dd", {}, text))));
}

function showInstances(instances) {
  const shown = instances.map((one) => el(
    "li",
    {},
    el("h3", {}, name(one.name), one.leaving && el("span", { class: "badge" }, "leaving")),
    one.capacity !== 1 && el("p", { class: "quiet" }, `capacity ${number(one.capacity)}`),
    one.members.map(member),
  ));
  show(byId("instance-list"), shown.length ? shown : el("li", {}, "No instance is running."));
}

function member(one) {
  const roles = ROLES.map((role) => [role, one.tasks.filter((task) => task.role === role)]);
  return el(
    "div",
    { class: "member" },
    el("p", {}, name(one.member), " ", el("span", { class: `state ${one.state}` }, one.state)),
    el("dl", {}, roles.filter(([, tasks]) => tasks.length).map(([role, tasks]) => el(
      "div", {}, el("dt", {}, `${role} (${tasks.length})`), el("dd", {}, tasks.map(task)),
    ))),
  );
}

function task(one) {
  const wrong = one.problem ?? one.misplaced;
  const facts = [one.lag ? `+${number(one.lag)}` : null, one.paused ? "paused" : null, wrong ? "!" : null];
  return [el(
    "span",
    { class: `task ${one.role}${wrong ? " wrong" : ""}`, title: wrong },
    [one.task, ...facts.filter((fact) => fact !== null)].join(" "),
  ), " "];
}

function showMoves(moves) {
  show(byId("move-table"), table(
    "Moving tasks",
    ["Task", "From", "To", "Stage", "Progress", "Records left", "Bytes left", "Rate", "Ready in"],
    moves.map((one) => [
      one.task,
      one.from === null ? "–" : name(one.from),
      name(one.to),
      one.stage,
      one.end ? el("progress", { max: one.end, value: one.restored, "aria-label": `${one.task} restored` }) : "–",
      number(one.left),
      one.bytes_left === null ? "–" : `about ${bytes(one.bytes_left)}`,
      rate(one.rate),
      one.eta_s === null ? "–" : duration(one.eta_s * 1000),
    ]),
    "No task is moving.",
  ));
}

function showTimeline({ timeline, at_ms: now }) {
  show(byId("events"), timeline.length ? timeline.slice(0, EVENTS).map(event) : el("li", { class: "quiet" }, "Nothing since this page is open."));
  const x = (ms) => Math.max(0, Math.min(1000, 1000 - ((now - ms) * 1000) / STRIP_MS));
  const recent = timeline.filter((one) => (one.ended_ms ?? now) > now - STRIP_MS && one.at_ms > now - STRIP_MS);
  const moves = recent.filter((one) => one.kind === "move");
  show(byId("strip"), svg(
    "svg",
    { viewBox: "0 0 1000 64", preserveAspectRatio: "none" },
    svg("rect", { class: "ground", width: 1000, height: 64 }),
    recent.filter((one) => one.kind === "rebalance").map((one) => svg("rect", { class: "rebalance", x: x(one.at_ms) - 1, width: 3, height: 64 })),
    moves.map((one, index) => svg("rect", {
      class: "move", x: x(one.at_ms), y: 4 + (index % 8) * 7, height: 5, width: Math.max(3, x(one.ended_ms ?? now) - x(one.at_ms)),
    })),
  ), el("p", { class: "quiet" }, "The last ten minutes: rebalances upright, moving tasks as bars."));
}

function event(one) {
  const at = el("time", { datetime: instant(one.at_ms) }, clock(one.at_ms));
  if (one.kind === "rebalance") {
    const took = one.took_ms === null ? null : `, took about ${duration(one.took_ms)}`;
    return el("li", { class: "rebalance" }, at, ` rebalance, generation ${one.generation}`, took, one.reason && [": ", name(one.reason)]);
  }
  const ended = one.ended === null ? "moves" : one.ended === "moved" ? "moved" : `moved not (${one.ended})`;
  const stages = Object.entries(one.stages).map(([stage, ms]) => `${stage} ${clock(ms)}`);
  return el(
    "li",
    { class: "move" },
    at, ` task ${one.task} ${ended} from `, one.from === null ? "–" : name(one.from), " to ", one.to === null ? "–" : name(one.to),
    one.ended_ms !== null && ` in ${duration(one.ended_ms - one.at_ms)}`,
    one.silence_ms !== null && el("strong", {}, one.silence_ms < 250 ? ", silent for less than 0.3 s" : `, silent for about ${duration(one.silence_ms)}`),
    stages.length > 0 && el("span", { class: "quiet" }, ` (${stages.join(", ")})`),
  );
}

function showErrors({ errors, letters }) {
  show(byId("error-list"), errors.length
    ? errors.map((one) => el("li", {}, el("strong", {}, name(one.about)), ": ", name(one.text)))
    : el("li", { class: "quiet" }, "Nothing is wrong."));
  show(byId("letters"), letters === null
    ? el("p", { class: "quiet" }, "It is not known here which topics hold dead letters: name the application as module:attribute.")
    : table("Dead letters", ["Topic of dead letters", "Records", "Rate"], letters.map((one) => [name(one.topic), number(one.records), rate(one.rate)]), "The application writes no dead letters."));
}

startSearch();
startSimulator();
setInterval(showAge, AGAIN_MS);
ask();
