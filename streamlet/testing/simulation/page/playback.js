// Plays a simulated group moment by moment. The live page's elements.js stands before it.

const PLAY_MS = 800;
// Every so many moments, how all members are is kept; between them it is worked out.
const KEPT_EVERY = 100;
const ROLES = ["active", "pending", "learner", "standby", "released", "held"];

const byId = (id) => document.getElementById(id);
const played = JSON.parse(byId("data").textContent);
const { moments, steps, instances, result } = played;
const LAST = moments.length - 1;

let at = 0;
let timer = null;

// How all members are.

const kept = [];

function apply(members, moment) {
  for (const [member, facts] of Object.entries(moment.members)) {
    if (facts === null) members.delete(member);
    else members.set(member, facts);
  }
}

function keepAll() {
  const members = new Map();
  moments.forEach((moment, index) => {
    apply(members, moment);
    if (index % KEPT_EVERY === 0) kept.push(new Map(members));
  });
}

function membersAt(index) {
  if (index < 0) return new Map();
  const from = Math.floor(index / KEPT_EVERY);
  const members = new Map(kept[from]);
  for (let next = from * KEPT_EVERY + 1; next <= index; next += 1) apply(members, moments[next]);
  return members;
}

// What has changed.

function words(task) {
  if (task === undefined) return "–";
  const more = [];
  if (task.role === "active" && task.stage !== "running") more.push(task.stage);
  if (task.ready) more.push("ready");
  if (task.to !== undefined) more.push(`to ${task.to}`);
  return [task.role, ...more].join(", ");
}

const byTask = (facts) => new Map((facts?.tasks ?? []).map((one) => [one.task, one]));

function changedTasks(before, now) {
  const [olds, news] = [byTask(before), byTask(now)];
  return [...new Set([...olds.keys(), ...news.keys()])]
    .map((task) => [task, words(olds.get(task)), words(news.get(task))])
    .filter(([, old, next]) => old !== next);
}

function changesOf(member, before, now) {
  if (now === null) return [el("li", {}, name(member), " is gone")];
  const texts = [];
  const same = before !== undefined && before.process === now.process;
  if (!same) texts.push(before === undefined ? "starts" : "starts again");
  else if (before.state !== now.state) texts.push(`${before.state} → ${now.state}`);
  for (const flag of ["paused", "stopping", "leaving"]) {
    if (now[flag] !== (same ? before[flag] : false)) texts.push(now[flag] ? flag : `no longer ${flag}`);
  }
  const tasks = changedTasks(same ? before : undefined, now);
  return [
    texts.length > 0 && el("li", {}, name(member), ": ", texts.join(", ")),
    tasks.map(([task, old, next]) => el("li", {}, name(member), ": task ", name(task), " ", old, " → ", name(next))),
  ];
}

// What is shown.

const stepName = (step) =>
  step < 0 ? "Start" : step < steps.length ? `Step ${step + 1} of ${steps.length}` : "End";

function showWhere(moment) {
  const text = `${stepName(moment.step)}, ${duration(moment.now_ms)}, moment ${at + 1} of ${moments.length}`;
  show(
    byId("where"),
    el("strong", {}, text), " ",
    el("span", { class: `state ${moment.phase}` }, moment.phase), `, generation ${moment.generation}`,
    moment.leader !== null && [", led by ", name(moment.leader)],
  );
  byId("slider").value = at;
  byId("slider").setAttribute("aria-valuetext", text);
  show(byId("step"), moment.step < 0 ? "The group as the scenario begins."
    : moment.step < steps.length ? (steps[moment.step].length ? steps[moment.step].map((text, index) => [index > 0 && "; ", name(text)]) : "nothing but time")
      : "The end: what was expected is looked at.");
}

function showNews(moment, before) {
  const requests = moment.requests.map((one) => el(
    "li", {}, name(one.from), ` sends ${one.request}`, one.text && [": ", name(one.text)],
    one.lost && el("strong", {}, " (it or its answer is lost)"),
  ));
  const news = [
    moment.violations.map((index) => broken(result.violations[index], "problem")),
    moment.rounds.filter((index) => result.rounds[index]).map((index) => el(
      "li", {}, el("strong", {}, `Rebalance ${index + 1}`), ": ", name(result.rounds[index].reason),
    )),
    requests,
    moment.requests_left_out > 0 && el("li", { class: "quiet" }, `and ${number(moment.requests_left_out)} more requests`),
    at > 0 && Object.entries(moment.members).map(([member, now]) => changesOf(member, before.get(member), now)),
  ].flat(Infinity).filter(Boolean);
  show(byId("news"), news.length ? news : el("li", { class: "quiet" }, "Nothing has changed."));
}

const broken = (one, kind) =>
  one && el("li", { class: kind }, el("strong", {}, name(one.rule)), ": ", name(one.text));

function showInstances(moment, members, before) {
  show(byId("instance-list"), instances.map(([instance, names]) => {
    const there = names.filter((one) => members.has(one));
    const leaving = there.some((one) => members.get(one).leaving);
    return el(
      "li", {},
      el("h3", {}, name(instance), leaving && el("span", { class: "badge" }, "leaving")),
      there.length === 0 && el("p", { class: "quiet" }, "not running"),
      there.map((one) => memberOf(one, members.get(one), before.get(one), moment.leader)),
    );
  }));
}

function memberOf(member, now, before, leader) {
  const fresh = new Set(at > 0 && now !== before ? changedTasks(before, now).map(([task]) => task) : []);
  const roles = ROLES.map((role) => [role, now.tasks.filter((one) => one.role === role)]);
  const flags = [member === leader && "leads", now.paused && "paused", now.stopping && "stopping"];
  return el(
    "div", { class: "member" },
    el("p", {}, name(member), " ", el("span", { class: `state ${now.state}` }, now.state),
      flags.filter(Boolean).map((flag) => el("span", { class: "badge" }, flag))),
    el("dl", {}, roles.filter(([, tasks]) => tasks.length).map(([role, tasks]) => el(
      "div", {}, el("dt", {}, `${role} (${tasks.length})`), el("dd", {}, tasks.map((one) => taskOf(one, fresh))),
    ))),
  );
}

function taskOf(one, fresh) {
  const facts = [
    one.role === "active" && one.stage !== "running" && ` ${one.stage}`,
    one.lag ? ` +${number(one.lag)}` : null,
    one.ready && " ready",
    one.to !== undefined && [" → ", name(one.to)],
  ];
  return [el("span", { class: `task ${one.role}${fresh.has(one.task) ? " fresh" : ""}` }, name(one.task), facts), " "];
}

function lastRound() {
  for (let index = at; index >= 0; index -= 1) {
    const found = moments[index].rounds.findLast((one) => result.rounds[one]);
    if (found !== undefined) return found;
  }
  return null;
}

const list = (tasks) => tasks.map((task, index) => [index > 0 && ", ", name(task)]);
const pairs = (tasks, sign) => Object.entries(tasks).map(([task, member], index) => [
  index > 0 && ", ", name(task), member !== null && [` ${sign} `, name(member)],
]);

function showPlan() {
  const index = lastRound();
  if (index === null) {
    show(byId("reason"), el("span", { class: "quiet" }, "There was none so far."));
    show(byId("plan"));
    return;
  }
  const round = result.rounds[index];
  show(byId("reason"), `Rebalance ${index + 1}, generation ${round.generation}, planned by `, name(round.leader), ": ", name(round.reason));
  show(byId("plan"), table(
    "Plan of the last rebalance",
    ["Member", "Runs", "Releases", "Waits for", "Learns", "Standby", "Revoked"],
    Object.entries(round.assigned).map(([member, part]) => [
      name(member),
      list(part.active.filter((task) => !Object.hasOwn(part.release, task))),
      pairs(part.release, "→"), pairs(part.pending, "←"), pairs(part.learner, "←"),
      list(part.standby), list(part.revoke),
    ]),
    "The plan names no member.",
  ));
}

// Steps and rebalances, each with its moment.

const entries = [];

function showCourse() {
  moments.forEach((moment, index) => {
    if (index === 0 || moment.step !== moments[index - 1].step) {
      entries.push([index, "step", stepName(moment.step), (steps[moment.step] ?? []).join("; ")]);
    }
    for (const one of moment.rounds) {
      if (result.rounds[one]) entries.push([index, "rebalance", `Rebalance ${one + 1}`, result.rounds[one].reason]);
    }
  });
  show(byId("course"), entries.map(([index, kind, head, text]) => el(
    "li", { class: kind },
    el("button", { type: "button", "data-moment": index }, el("strong", {}, head), text && [": ", name(text)]),
  )));
  byId("course").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button !== null) go(Number(button.dataset.moment));
  });
}

function markCourse() {
  const current = entries.findLastIndex(([index]) => index <= at);
  [...byId("course").querySelectorAll("button")].forEach((button, index) => {
    if (index === current) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
}

function showOutcome() {
  const wrong = result.violations;
  document.title = `${played.name}, streamlet`;
  show(byId("title"), name(played.name));
  const held = "Everything expected came true, and every rule held.";
  byId("verdict").className = wrong.length ? "problem" : "held";
  show(byId("verdict"), wrong.length ? `Expectations and rules that did not hold: ${number(wrong.length)}.` : held,
    played.left_out > 0 && ` The last ${number(played.left_out)} moments are left out.`);
  show(byId("error-list"), wrong.length ? wrong.map((one) => broken(one)) : el("li", { class: "held" }, held));
  show(byId("totals"), Object.entries(result.totals).map(([head, value]) => el(
    "div", {}, el("dt", {}, head.replaceAll("_", " ")), el("dd", {}, Array.isArray(value) ? value.join(", ") : number(value)),
  )));
}

// Going from moment to moment.

function go(index) {
  at = Math.max(0, Math.min(LAST, index));
  const moment = moments[at];
  const [before, members] = [membersAt(at - 1), membersAt(at)];
  showWhere(moment);
  showNews(moment, before);
  showInstances(moment, members, before);
  showPlan();
  markCourse();
  if (at === LAST) pause();
}

function pause() {
  clearInterval(timer);
  timer = null;
  byId("play").textContent = "Play";
}

function play() {
  if (timer !== null) {
    pause();
    return;
  }
  if (at === LAST) go(0);
  byId("play").textContent = "Pause";
  timer = setInterval(() => go(at + 1), PLAY_MS);
}

const ACTS = {
  first: () => go(0),
  back: () => go(at - 1),
  play,
  next: () => go(at + 1),
  last: () => go(LAST),
};
const KEYS = { Home: "first", ArrowLeft: "back", " ": "play", ArrowRight: "next", End: "last" };

function start() {
  keepAll();
  showOutcome();
  showCourse();
  byId("slider").max = LAST;
  byId("slider").addEventListener("input", (event) => go(Number(event.target.value)));
  for (const [id, act] of Object.entries(ACTS)) byId(id).addEventListener("click", act);
  document.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (act === undefined || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.key === " " && event.target.closest("button, a")) return;
    event.preventDefault();
    ACTS[act]();
  });
  go(0);
}

start();
