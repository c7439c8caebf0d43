// Has the server play a scenario file, and gives the way to the page that shows it step by step.

import { el, show } from "./elements.js";

const LOOK_MS = 500;
const said = (...children) => show(document.getElementById("simulation-said"), ...children);

// Only `streamlet ui` plays scenarios: an instance has other things to do.
export function showSimulator(offered) {
  for (const id of ["simulator", "simulator-link"]) document.getElementById(id).hidden = !offered;
}

async function answered(address, how) {
  const answer = await fetch(address, how);
  if (answer.ok || answer.status === 503) return answer;
  throw new Error((await answer.json()).message ?? `status ${answer.status}`);
}

async function play(file) {
  said("The scenario is being played.");
  const how = { method: "POST", headers: { "Content-Type": "application/json" }, body: file };
  const { number } = await (await answered("/simulations", how)).json();
  const address = `/simulations/${number}`;
  while ((await answered(address)).status === 503) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  said(el("a", { href: address, target: "_blank", rel: "noopener" }, `Watch ${file.name}`));
}

export function startSimulator() {
  document.getElementById("simulation").addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.currentTarget.querySelector("button");
    button.disabled = true;
    try {
      await play(document.getElementById("scenario").files[0]);
    } catch (error) {
      said(error.message);
    } finally {
      button.disabled = false;
    }
  });
}
