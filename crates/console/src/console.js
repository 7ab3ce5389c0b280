// The live part of the overview: figures each second, the chart of three lengths. Pages work without it.
"use strict";
const chart = document.getElementById("chart");

async function fetched(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}

// A cell of a table that is there already: text only, so that no name becomes markup.
function refresh(id, rows, columns) {
  const lines = document.querySelectorAll(`#${id} tbody tr`);
  if (lines.length !== Math.min(rows.length, 10)) return false;
  lines.forEach((line, at) => {
    columns.forEach(([place, name]) => {
      const value = rows[at][name];
      const cell = line.cells[place];
      const text = typeof value === "number" && name !== "id" ? value.toFixed(2) : String(value ?? "");
      const link = cell.querySelector("a");
      if ((link ?? cell).textContent !== text) (link ?? cell).textContent = text;
      // A slave is found by its address, as in the page that the server made.
      const target = name === "broker" && rows[at].id !== 0 ? rows[at].address : text;
      if (link) link.search = "?name=" + encodeURIComponent(target);
    });
  });
  return true;
}

// Takes tables from the page as it is now, when their rows have become more or fewer.
async function replace(ids) {
  const answer = await fetch("/");
  if (!answer.ok || answer.redirected) throw new Error(answer.status);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  ids.forEach((id) => document.getElementById(id).replaceChildren(...page.getElementById(id).childNodes));
}

function draw(points, ring) {
  const span = [600e3, 21600e3, 604800e3][ring];
  const end = Date.now();
  const most = Math.max(1, ...points.map((point) => Math.max(point.in_tps, point.out_tps)));
  for (const name of ["in", "out"]) {
    const line = points.map((point) => {
      const x = 800 * (1 - (end - point.at_ms) / span);
      const y = 196 - 190 * point[name + "_tps"] / most;
      return `${x.toFixed(1)},${y.toFixed(1)}`;
    });
    chart.querySelector("." + name).setAttribute("points", line.join(" "));
  }
  document.getElementById("scale").textContent = `0 – ${most.toFixed(1)}/s.`;
}

if (chart) {
  let ring = 0;
  let turn = 0;
  let points = [];
  const load = async () => { points = await fetched("/api/v1/history?ring=" + ring); draw(points, ring); };
  document.querySelectorAll("#ranges button").forEach((button) => button.addEventListener("click", () => {
    ring = Number(button.dataset.ring);
    document.querySelectorAll("#ranges button").forEach((other) =>
      other.setAttribute("aria-pressed", String(other === button)));
    load().catch(() => {});
  }));
  load().catch(() => {});
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const live = await fetched("/api/v1/live");
      document.querySelector("[data-live=in]").textContent = live.in_tps.toFixed(1);
      document.querySelector("[data-live=out]").textContent = live.out_tps.toFixed(1);
      document.getElementById("taken").textContent = live.at + (live.error ? " ✗ " + live.error : "");
      const tables = [
        // All columns: the rows are sorted by their rates each second.
        ["brokers", [[0, "cluster"], [1, "broker"], [2, "id"], [3, "address"], [4, "version"], [5, "in_tps"], [6, "out_tps"],
          [7, "disk_ratio"], [8, "error"]]],
        ["topics", [[0, "topic"], [1, "in_tps"], [2, "time"]]],
      ];
      const other = tables.filter(([id, columns]) => !refresh(id, live[id], columns)).map(([id]) => id);
      if (other.length > 0) await replace(other);
      if (ring === 0 && (points.length === 0 || live.at_ms > points[points.length - 1].at_ms)) {
        points.push(live);
        points = points.slice(-601);
        draw(points, 0);
      } else if (++turn % 10 === 0) {
        await load();
      }
    } catch {
      document.getElementById("taken").textContent = "✗";
    }
  }, 1000);
}

// Health at the top of every page: text, title and icon, and the verdict of the overview when the doctor has looked again.
const health = document.getElementById("health");
const title = document.title.replace(/^[⚠✗] /, "");
const levels = { unknown: ["", "808894"], ok: ["", "1a8f3c"], warning: ["⚠ ", "d98200"], critical: ["✗ ", "c8141c"] };

function showHealth(now) {
  const [mark, colour] = levels[now.level];
  health.className = "health " + now.level;
  health.dataset.taken = now.taken_at_ms;
  health.dataset.text = now.text;
  document.title = mark + title;
  const icon = document.getElementById("icon");
  icon.href = icon.href.replace(/%23[0-9a-f]{6}/, "%23" + colour);
}

function showAge(isSilent) {
  const taken = Number(health.dataset.taken);
  const age = Math.max(0, Math.round((Date.now() - taken) / 1000));
  const text = health.dataset.text ?? health.textContent.trim();
  health.dataset.text = text;
  health.textContent = isSilent ? health.dataset.silent : taken ? `${text} · ${age} ${health.dataset.ago}` : text;
  for (const part of [health, document.getElementById("verdict")]) part?.classList.toggle("stale", isSilent || taken > 0 && age > 60);
}

if (health) {
  let isSilent = false;
  const look = async () => {
    if (document.hidden) return;
    try {
      showHealth(await fetched("/api/v1/health"));
      const verdict = document.getElementById("verdict");
      if (verdict && verdict.dataset.taken !== health.dataset.taken) {
        await replace(["verdict"]);
        verdict.dataset.taken = health.dataset.taken;
      }
      isSilent = false;
    } catch {
      isSilent = true;
    }
    showAge(isSilent);
  };
  look();
  setInterval(look, 3000);
  setInterval(() => showAge(isSilent), 1000);
  document.addEventListener("visibilitychange", look);
}
