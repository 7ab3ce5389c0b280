// The live parts of pages: content that refreshes in place, charts, health. Pages work without it.
"use strict";
const lang = document.documentElement.lang;

// Longest time for an answer, ms. A console that stands still must not gather requests.
const PATIENCE = 15000;

async function fetched(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(PATIENCE) });
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}

// A function that does nothing while its last call goes on.
function single(work) {
  let running = null;
  return () => (running ??= work().finally(() => { running = null; }));
}

// Makes the children of an element equal to those of a newer page. Elements that stay keep focus, scroll position and selection.
function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) {
    const key = keyOf(child);
    if (key) keyed.set(key, [...(keyed.get(key) ?? []), child]);
  }
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    // Several rows may lead to one thing, such as the queues of a topic.
    const same = key ? keyed.get(key)?.shift() : likeness(place, next);
    if (!same) {
      old.insertBefore(document.importNode(next, true), place);
      continue;
    }
    if (!key) while (place !== same && !keyOf(place)) place = dropped(place);
    if (same === place) place = place.nextSibling;
    else old.insertBefore(same, place);
    morph(same, next);
  }
  while (place) place = dropped(place);
}

function dropped(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// Rows are known by the thing that they lead to.
function keyOf(node) {
  return node.id || node.dataset?.key || (node.nodeName === "TR" && node.querySelector("a[href]")?.getAttribute("href")) || "";
}

// The first sibling from a place on that a new node without a key can take over.
function likeness(place, next) {
  const isLike = (node) => !keyOf(node) && node.nodeName === next.nodeName && node.className === next.className;
  for (let node = place; node; node = node.nextSibling) if (isLike(node)) return node;
  return place && !keyOf(place) && place.nodeName === next.nodeName ? place : null;
}

function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType === Node.TEXT_NODE) {
    const selection = getSelection();
    const isEnd = !selection.isCollapsed && [selection.anchorNode, selection.focusNode].includes(old);
    if (old.data !== fresh.data && !isEnd) old.data = fresh.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE || old.hasAttribute("data-keep") || isEdited(old)) return;
  const isOpened = (name) => name === "open" && old.nodeName === "DETAILS";
  for (const { name, value } of fresh.attributes) if (!isOpened(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (!isOpened(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  morphChildren(old, fresh);
}

// Whether a visitor fills in a field, or a field of a form.
function isEdited(element) {
  if (element.nodeName === "FORM") return [...element.elements].some(isEdited);
  if (!("form" in element) || element.nodeName === "BUTTON") return false;
  if (element.nodeName === "SELECT") return element === document.activeElement;
  return element === document.activeElement || element.value !== element.defaultValue || element.checked !== element.defaultChecked;
}

// Pages of one thing refresh in place. What cannot be refreshed is greyed, with the reason and its age.
const page = document.querySelector("main[data-live]");
const age = document.getElementById("age");

if (page) {
  let taken = Date.now();
  let reason = "";
  const show = () => {
    const seconds = Math.round((Date.now() - taken) / 1000);
    age.textContent = (reason ? `✗ ${reason} · ` : "") + age.dataset.text.replace("{}", seconds);
    age.classList.toggle("failure", reason !== "");
    page.classList.toggle("stale", reason !== "");
  };
  const refresh = single(async () => {
    const begun = Date.now();
    let answer = null;
    try {
      answer = await fetch(location.href, { signal: AbortSignal.timeout(PATIENCE) });
    } catch {
      reason = age.dataset.silent;
    }
    if (answer) {
      const whole = new DOMParser().parseFromString(await answer.text().catch(() => ""), "text/html");
      const fresh = whole.querySelector("main[data-live]");
      if (answer.ok && !answer.redirected && fresh) {
        const focused = document.activeElement;
        morphChildren(page, fresh);
        if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
        [taken, reason] = [begun, ""];
      } else {
        reason = answer.redirected ? age.dataset.login : whole.querySelector("main .failure")?.textContent.replace(/^✗ /, "") ?? String(answer.status);
      }
    }
    show();
    return Date.now() - begun;
  });
  const loop = async () => {
    const took = document.hidden ? 0 : await refresh();
    setTimeout(loop, Math.max(Number(page.dataset.live), 5 * Math.min(took, 5000)));
  };
  setTimeout(loop, Number(page.dataset.live));
  setInterval(show, 1000);
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
}

// Charts by uPlot, of the cluster or of one thing, over one of three spans.
const spans = [{ ms: 600e3, step: 1e3 }, { ms: 21600e3, step: 10e3 }, { ms: 604800e3, step: 300e3 }];
const exact = new Intl.NumberFormat(lang, { maximumFractionDigits: 2 });
const compact = new Intl.NumberFormat(lang, { notation: "compact", maximumSignificantDigits: 3 });

function withUnit(value, unit, format) {
  if (value === null || value === undefined) return "–";
  if (unit !== "s") return (format.format(value) + " " + unit).trim();
  const [size, name] = [[86400, "day"], [3600, "hour"], [60, "minute"], [0, "second"]].find(([size]) => value >= 2 * size);
  return new Intl.NumberFormat(lang, { style: "unit", unit: name, unitDisplay: "short", maximumFractionDigits: 1 }).format(value / (size || 1));
}

function clock(parts) {
  const format = new Intl.DateTimeFormat(lang, { hourCycle: "h23", ...parts });
  return (ms) => format.format(ms);
}
const minutes = clock({ hour: "2-digit", minute: "2-digit" });
const seconds = clock({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
const days = clock({ month: "2-digit", day: "2-digit" });
const whole = clock({ month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" });

// The points as uPlot takes them: times, then values. A line ends where nothing is known for longer than figures are taken apart.
function columns(points, names, step) {
  const gap = Math.max(150e3, 2.5 * step);
  const rows = points.flatMap((point, at) => at > 0 && point.at_ms - points[at - 1].at_ms > gap ? [{ at_ms: point.at_ms - 1 }, point] : [point]);
  const values = names.map((name) => {
    let last = null;
    return rows.map((row, at) => {
      if (typeof row[name] === "number") last = row.at_ms;
      else if (last !== null && rows.slice(at + 1).find((next) => typeof next[name] === "number")?.at_ms - last <= gap) return undefined;
      return row[name] ?? null;
    });
  });
  return [rows.map((row) => row.at_ms), ...values];
}

function plotOf(figure, range) {
  const unit = figure.dataset.unit;
  const legend = [...figure.querySelectorAll("[data-figure]")];
  const at = figure.querySelector(".at");
  const canvas = figure.querySelector(".canvas");
  const colour = (name) => () => getComputedStyle(figure).getPropertyValue(name).trim();
  const axis = { stroke: colour("--soft"), font: "12px system-ui", grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  const show = (chart) => {
    const pointed = chart.cursor.idx;
    at.textContent = pointed === null || pointed === undefined ? "" : (chart.scales.x.max - chart.scales.x.min > spans[1].ms + 60e3 ? whole : seconds)(chart.data[0][pointed]);
    legend.forEach((one, series) => {
      const values = chart.data[series + 1];
      const value = at.textContent ? values[pointed] : values.findLast((value) => typeof value === "number");
      one.querySelector("output").textContent = withUnit(value, unit, exact);
    });
  };
  const times = (chart, splits, _axis, _space, step) => splits.map(step >= 86400e3 ? days : step >= 60e3 ? minutes : seconds);
  const durations = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 345600, 604800, 1209600, 2592000];
  canvas.replaceChildren();
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", figure.querySelector("strong").textContent);
  const chart = new uPlot({
    width: Math.max(canvas.clientWidth, 100), height: 180, ms: 1, legend: { show: false }, cursor: { sync: { key: "charts" }, drag: { x: false, y: false } },
    scales: { x: { range }, y: { range: (_chart, _least, most) => [0, unit === "%" ? 100 : most > 0 ? 1.1 * most : 1] } },
    axes: [{ ...axis, size: 32, values: times }, { ...axis, size: 70, values: (_chart, splits) => splits.map((value) => withUnit(value, unit, compact)), ...(unit === "s" ? { incrs: durations } : {}) }],
    series: [{}, ...legend.map((_one, series) => ({ stroke: colour(series ? "--out" : "--in"), width: 2, ...(series ? { dash: [6, 4] } : {}) }))],
    hooks: { setCursor: [show], setData: [show] },
  }, [[], ...legend.map(() => [])], canvas);
  new ResizeObserver(() => {
    const width = Math.max(canvas.clientWidth, 100);
    if (width !== chart.width) chart.setSize({ width, height: 180 });
  }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw(false, true));
  return { names: legend.map((one) => one.dataset.figure), chart };
}

function startCharts(section) {
  const { kind, name } = section.dataset;
  let ring = 0;
  let points = [];
  let [drawn, loading] = [0, 0];
  const range = () => [Date.now() - spans[ring].ms, Date.now()];
  const plots = [...section.querySelectorAll("figure.plot")].map((figure) => plotOf(figure, range));
  const load = async () => {
    const asked = ring;
    loading += 1;
    const query = new URLSearchParams({ ring, since: points.length ? points[points.length - 1].at_ms - 1 : 0 });
    if (kind) query.set(kind, name);
    try {
      const more = await fetched("/api/v1/history?" + query);
      if (asked !== ring) return;
      const since = more[0]?.at_ms ?? Infinity;
      points = points.filter((point) => point.at_ms < since && point.at_ms >= range()[0]).concat(more);
      plots.forEach(({ names, chart }) => chart.setData(columns(points, names, spans[ring].step)));
      drawn = Date.now();
    } catch {
      // The page says that the console does not answer.
    } finally {
      loading -= 1;
    }
    section.classList.toggle("stale", Date.now() - drawn > 3 * spans[ring].step + 5000);
  };
  const tabs = section.querySelector(".tabs");
  tabs.hidden = false;
  const buttons = [...tabs.querySelectorAll("button")];
  buttons.forEach((button) => button.addEventListener("click", () => {
    buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    [ring, points] = [Number(button.dataset.ring), []];
    load();
  }));
  load();
  setInterval(() => {
    if (!document.hidden && !loading && Date.now() - drawn >= spans[ring].step - 100) load();
  }, 1000);
}

// uPlot is loaded after this script.
document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("section.charts").forEach(startCharts));

// Health at the top of every page: text, title and icon.
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
  health.classList.toggle("stale", isSilent || taken > 0 && age > 60);
}

if (health) {
  let isSilent = false;
  const look = single(async () => {
    if (document.hidden) return;
    try {
      showHealth(await fetched("/api/v1/health"));
      isSilent = false;
    } catch {
      isSilent = true;
    }
    showAge(isSilent);
  });
  look();
  setInterval(look, 3000);
  setInterval(() => showAge(isSilent), 1000);
  document.addEventListener("visibilitychange", look);
}

// The zone of the browser, in which the server shows and reads times.
const zone = encodeURIComponent(`${Intl.DateTimeFormat().resolvedOptions().timeZone}~${-new Date().getTimezoneOffset()}`);
document.cookie = `vostok_zone=${zone}; Path=/; SameSite=Strict; Max-Age=31536000`;

// Choices that need a script: all boxes of a page at once.
for (const part of document.querySelectorAll("[data-script]")) part.hidden = false;
for (const all of document.querySelectorAll("[data-chooses]")) {
  const boxes = () => document.querySelectorAll(`input[type=checkbox][name^="${all.dataset.chooses}"]`);
  all.addEventListener("change", () => boxes().forEach((box) => { box.checked = all.checked; }));
}
