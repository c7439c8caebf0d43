// The drawn topology, whose places the server has worked out, and its figures as a table.

import { delay, duration, el, name, number, rate, show, svg, table } from "./elements.js";

const LETTERS = 22;
const short = (text) => {
  const letters = [...text];
  return letters.length <= LETTERS ? text : `${letters.slice(0, LETTERS - 1).join("")}…`;
};

export function showGraph(graph) {
  const place = document.getElementById("graph");
  const edges = document.getElementById("edges");
  if (graph === null) {
    show(place, el("p", { class: "quiet" }, "The group has noted no topology that can be drawn."));
    show(edges);
    return;
  }
  const [width, height] = graph.box;
  show(
    place,
    svg(
      "svg",
      {
        width: graph.width,
        height: graph.height,
        viewBox: `0 0 ${graph.width} ${graph.height}`,
        role: "img",
        "aria-label": `Topology of ${graph.boxes.length} boxes; the table below has its figures`,
      },
      svg(
        "defs",
        {},
        svg(
          "marker",
          { id: "tip", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
          svg("path", { d: "M0 0L8 4L0 8z" }),
        ),
      ),
      graph.ways.map(way),
      graph.boxes.map((one) => box(one, width, height)),
      graph.ways.map(label),
    ),
  );
  const labels = new Map(graph.boxes.map((one) => [one.id, one.label]));
  show(edges, table(
    "Figures of the edges",
    ["From", "To", "Rate", "Lag", "Late", "Dropped", "Delay", "Latency"],
    graph.ways.filter((one) => one.counts).map((one) => [
      name(labels.get(one.from)),
      name(labels.get(one.to)),
      rate(one.counts.rate),
      number(one.counts.lag),
      number(one.counts.late),
      number(one.counts.dropped),
      delay(one.counts.delay),
      duration(one.counts.latency),
    ]),
    "No edge has figures.",
  ));
}

function box(one, width, height) {
  const round = { topic: 22, store: 3, source: 8, processor: 8, sink: 8 }[one.kind];
  const part = one.part === null ? "topic" : `${one.kind}, subtopology ${one.part}`;
  return svg(
    "g",
    { class: `box ${one.kind} part${one.part === null ? "" : one.part % 6}`, transform: `translate(${one.x} ${one.y})` },
    svg("title", {}, one.label),
    svg("rect", { width, height, rx: round }),
    svg("text", { x: width / 2, y: 20, class: "label" }, short(one.label)),
    svg("text", { x: width / 2, y: 36, class: "kind" }, part),
  );
}

function way(one) {
  const [first, ...others] = one.points;
  let [x, y] = first;
  let path = `M${x} ${y}`;
  for (const [nextX, nextY] of others) {
    const middle = (y + nextY) / 2;
    path += `C${x} ${middle} ${nextX} ${middle} ${nextX} ${nextY}`;
    [x, y] = [nextX, nextY];
  }
  const late = one.counts && (one.counts.lag > 0 || one.counts.late > 0);
  return svg("path", { class: late ? "way behind" : "way", d: path, "marker-end": "url(#tip)" });
}

function label(one) {
  if (!one.counts) return null;
  const [fromX, fromY] = one.points.at(-2);
  const [toX, toY] = one.points.at(-1);
  const texts = one.counts.rate === null ? [] : [rate(one.counts.rate)];
  if (one.counts.lag) texts.push(`lag ${number(one.counts.lag)}`);
  if (one.counts.late) texts.push(`late ${number(one.counts.late)}`);
  return svg(
    "text",
    { class: "figures", x: (fromX + toX) / 2, y: (fromY + toY) / 2 - (texts.length - 1) * 6 },
    texts.map((text, index) => svg("tspan", { x: (fromX + toX) / 2, dy: index === 0 ? 4 : 13 }, text)),
  );
}
