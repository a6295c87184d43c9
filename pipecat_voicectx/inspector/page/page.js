"use strict";
(() => {
const NS = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
const BASE = document.body.dataset.base;
const MAX_ROWS = 300, MAX_EVENTS = 60000, NAME_HEIGHT = 15;

/* ---- small tools */
const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();
function measure(text, size = 12) {
  const key = size + text;
  let width = widths.get(key);
  if (width === undefined) {
    pen.font = `${size}px system-ui, sans-serif`;
    width = pen.measureText(text).width * 1.03;
    if (widths.size > 4000) widths.clear();
    widths.set(key, width);
  }
  return width;
}
function fit(text, width, size = 12) {
  if (measure(text, size) <= width) return text;
  let low = 0, high = Math.min(text.length, Math.ceil(width / 3) + 1);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(text.slice(0, middle).trimEnd() + "…", size) <= width) low = middle; else high = middle - 1;
  }
  return low > 3 ? text.slice(0, low).trimEnd() + "…" : "";
}
function svgEl(parent, name, attributes = {}, text) {
  const node = document.createElementNS(NS, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}
function h(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const key in attributes) {
    if (key === "onclick") node.addEventListener("click", attributes[key]);
    else if (attributes[key] !== false && attributes[key] !== undefined) node.setAttribute(key, attributes[key]);
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}
const clock = (t) => `${Math.floor(t / 60)}:${(t % 60).toFixed(1).padStart(4, "0")}`;
const secs = (s) => (s < 0.0995 ? `${(s * 1000).toFixed(s < 0.00995 ? 1 : 0)} ms` : `${s.toFixed(2)} s`);
const words = (name) => String(name ?? "").replaceAll("_", " ");
const plural = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
function firstAfter(list, t, key) { // index of the first item whose key is > t; keys rise
  let low = 0, high = list.length;
  while (low < high) { const middle = (low + high) >> 1; if (key(list[middle]) > t) high = middle; else low = middle + 1; }
  return low;
}

/* ---- the session, built up event by event */
let S;
function reset(header) {
  S = {
    header: header || { session_id: "", started_secs: 0, started_wall_secs: 0, title: "" },
    events: [], end: 0, speech: [], turns: [], holds: [], bot: [], heard: [], net: [], gaps: [], rates: [], marks: [],
    requests: [], answers: [], states: new Map(), metrics: new Map(), threads: null, facts: null, recall: null,
    config: null, lastContext: null, dropped: 0, interrupts: [],
  };
  sel = null;
  dirty.all = true;
}
const rel = (monotonic) => monotonic - S.header.started_secs;
const open = (list) => (list.length && list[list.length - 1].b === null ? list[list.length - 1] : null);
function begin(list, at, more = {}) { if (!open(list)) list.push({ at, b: null, ...more }); return list[list.length - 1]; }
function finish(list, at) { const item = open(list); if (item) item.b = at; return item; }

const TAKE = {
  user_turn(e) {
    const phase = e.v.phase;
    if (phase === "speech") begin(S.speech, e.at, { text: "" });
    else if (phase === "silence") { const item = finish(S.speech, Math.max(0, e.at - (e.v.stop_secs || 0))); if (item) item.b = Math.max(item.b, item.at); }
    else if (phase === "started") begin(S.turns, e.at);
    else if (phase === "stopped" && !finish(S.turns, e.at)) { // begun before anybody looked
      const spoken = S.speech[S.speech.length - 1];
      S.turns.push({ at: spoken ? Math.min(spoken.at, e.at) : e.at, b: e.at });
    }
  },
  user_text(e) {
    const last = S.speech[S.speech.length - 1];
    if (last && e.at - last.at < 60) last.text = last.text ? `${last.text} ${e.v.text}` : e.v.text;
    else S.speech.push({ at: Math.max(0, e.at - 0.5), b: e.at, text: e.v.text });
  },
  bot(e) {
    if (e.v.phase === "started") begin(S.bot, e.at);
    else if (e.v.phase === "stopped") finish(S.bot, e.at);
    else if (open(S.bot)) S.interrupts.push({ at: e.at });
  },
  heard(e) {
    const v = e.v, item = { at: Math.max(0, rel(v.started_secs)), b: Math.max(0, rel(v.ended_secs)), v, told: e.at };
    const known = S.heard.findIndex((o) => o.v.turn_id === v.turn_id);
    if (known >= 0) S.heard[known] = item; else { S.heard.push(item); sortTail(S.heard); }
  },
  held(e) { begin(S.holds, e.at, { v: e.v, out: null }); },
  released(e) { const item = finish(S.holds, e.at); if (item) item.out = e.v; },
  network(e) {
    const last = S.net[S.net.length - 1];
    if (last && last.v.band === e.v.band) last.v = e.v; else S.net.push({ at: e.at, v: e.v });
    S.netNow = e.v;
  },
  audio_gap(e) { S.gaps.push({ at: Math.max(0, rel(e.v.at_secs) - e.v.missing_secs), b: Math.max(0, rel(e.v.at_secs)), v: e.v }); sortTail(S.gaps); },
  speaking_rate(e) { if (e.v.rate !== null) S.rates.push({ at: e.at, v: e.v }); },
  state(e) { const name = e.v.frame.replace(/(State)?Frame$/, ""); if (!S.states.has(name)) S.states.set(name, []); S.states.get(name).push({ at: e.at, v: e.v.value, name }); },
  directive(e) { S.marks.push({ at: e.at, v: e.v, label: directive(e.v) }); if (e.v.type === "SetResponseSpeed") S.speedNow = e.v.words_per_minute; },
  rejected(e) { S.marks.push({ at: e.at, v: e.v, no: true, label: `refused: ${words(e.v.function || "unknown function")}` }); },
  context(e) { S.requests.push({ at: e.at, v: e.v }); if (e.v.messages.length) { S.lastContext = { at: e.at, v: e.v }; dirty.context = true; } },
  recall(e) { S.recall = { at: e.at, v: e.v }; dirty.context = dirty.threads = true; },
  projected(e) { S.projected = e.v; metric("projection", "memory", e.v.took_secs); },
  latency(e) { S.answers.push({ at: e.at, v: e.v.secs }); dirty.latency = true; },
  metric(e) { metric(e.v.what, e.v.where, e.v.secs); },
  threads(e) { if (e.v.pages) { S.threads = e.v; dirty.threads = true; } },
  facts(e) { if (e.v.facts) { S.facts = e.v; dirty.facts = true; } },
  config(e) { S.config = e.v; if (e.v.response_speed_wpm) S.speedNow = e.v.response_speed_wpm; },
  dropped(e) { S.dropped = e.v.events || S.dropped; },
  other(e) { if (!S.states.has("Other")) S.states.set("Other", []); S.states.get("Other").push({ at: e.at, v: e.v, name: words(e.v.event.replace(/^on_/, "")) }); },
};
function sortTail(list) { for (let i = list.length - 1; i > 0 && list[i].at < list[i - 1].at; i--) [list[i], list[i - 1]] = [list[i - 1], list[i]]; }
function metric(what, where, value) {
  const key = `${where}\u0000${what}`;
  if (!S.metrics.has(key)) S.metrics.set(key, []);
  const list = S.metrics.get(key);
  list.push(value);
  if (list.length > 500) list.shift();
  dirty.latency = true;
}
function directive(v) {
  switch (v.type) {
    case "SetResponseSpeed": return `speak at ${v.words_per_minute}`;
    case "SetVadSilenceDuration": return v.duration_ms === null ? "usual silence again" : `wait ${(v.duration_ms / 1000).toFixed(1)} s`;
    case "DeferResponse": return "answer later";
    case "SetResponseInstruction": return "a hint for the next answer";
    default: return words(v.type || "directive");
  }
}
function take(events) {
  for (const e of events) {
    if (typeof e.at !== "number") continue;
    S.events.push(e);
    S.end = Math.max(S.end, e.at);
    try { TAKE[e.k]?.(e); } catch (error) { S.broken = (S.broken || 0) + 1; }
  }
  if (S.events.length > MAX_EVENTS) S.events.splice(0, S.events.length - MAX_EVENTS);
  dirty.lanes = dirty.now = dirty.log = true;
  schedule();
}

/* ---- lanes */
const LANES = [
  { key: "speech", name: "The caller", height: 46, list: () => S.speech, draw: drawSpeech, say: saySpeech },
  { key: "turns", name: "Turn, and what held it open", height: 38, list: () => merged("turns", S.turns, S.holds), draw: drawTurns, say: sayTurn },
  { key: "bot", name: "The bot, as heard", height: 52, list: () => merged("bot", S.heard, openBot()), draw: drawBot, say: sayBot },
  { key: "net", name: "The line", height: 42, list: () => merged("net", S.net, S.gaps), draw: drawNet, say: sayNet },
  { key: "rates", name: "The caller’s pace", height: 52, list: () => S.rates, draw: drawRates, say: sayRate },
  { key: "marks", name: "Directives", height: 54, list: () => S.marks, draw: drawMarks, say: sayMark },
  { key: "requests", name: "Tokens sent to the model", height: 84, list: () => S.requests, draw: drawRequests, say: sayRequest },
  { key: "answers", name: "Wait for the answer", height: 56, list: () => S.answers, draw: drawAnswers, say: sayAnswer },
];
function lanes() {
  const used = LANES.filter((lane) => lane.key === "speech" || lane.key === "turns" || lane.key === "bot" || lane.list().length);
  for (const [name, list] of S.states) if (list.some((o) => brief(o) !== QUIET)) used.push({ key: `state:${name}`, name: spaced(name), height: 36, list: () => S.states.get(name) || [], draw: drawOther, say: sayOther });
  return used;
}
const STATE_NAMES = { Acoustics: "How it sounds", Affect: "How the caller feels", Other: "Other events" };
const spaced = (name) => STATE_NAMES[name] || name.replace(/([a-z])([A-Z])/g, "$1 $2").replace(/^./, (c) => c.toUpperCase());
const cache = new Map();
function merged(key, a, b) { // by time; both are sorted
  const known = cache.get(key);
  if (known && known.a === a && known.an === a.length && known.bn === b.length) return known.list;
  const list = [...a, ...b].sort((x, y) => x.at - y.at);
  cache.set(key, { a, an: a.length, bn: b.length, list });
  return list;
}
function openBot() { // what is being said now, or was never settled
  const last = S.bot[S.bot.length - 1];
  if (!last) return [];
  const settled = S.heard.some((o) => Math.abs(o.at - last.at) < 2.5 || (o.at <= last.at && o.b >= last.at));
  return settled ? [] : [last];
}

let zoom = 24, follow = true, sel = null, frame = 0;
const dirty = { all: true, lanes: true, now: true, log: true, context: false, threads: false, facts: false, latency: false };
const LEFT = 6, RIGHT = 110;
const x = (t) => LEFT + t * zoom;

function visible(list, from, to) { // spans may begin before the view: look back a little
  const start = Math.max(0, firstAfter(list, from - 90, (i) => i.at) - 1);
  const stop = firstAfter(list, to, (i) => i.at);
  const out = [];
  for (let i = start; i < stop; i++) if ((list[i].b === undefined ? list[i].at + 200 / zoom : list[i].b ?? S.end) >= from) out.push([i, list[i]]);
  return out;
}
function thin(items, gap = 1.5) { // no more marks than pixels
  let last = -1e9;
  return items.filter(([, item]) => { const at = x(item.at), end = item.b === undefined ? at : x(item.b ?? S.end); if (at - last < gap && end - at < gap) return false; last = at; return true; });
}

function drawLanes() {
  const scroll = $("scroll"), strip = $("strip"), width = scroll.clientWidth;
  const used = lanes();
  const total = used.reduce((sum, lane) => sum + lane.height + 8, 22);
  strip.style.width = `${Math.max(width, x(S.end) + RIGHT)}px`;
  strip.style.height = `${total}px`;
  if (follow) scroll.scrollLeft = strip.offsetWidth;
  const left = scroll.scrollLeft, from = (left - LEFT) / zoom - 20 / zoom, to = (left + width - LEFT) / zoom + 20 / zoom;
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("width", width);
  svg.setAttribute("height", total);
  svg.setAttribute("viewBox", `${left} 0 ${width} ${total}`);
  svg.style.left = `${left}px`;
  grid(svg, from, to, total);
  const names = [];
  let y = 22;
  for (const lane of used) {
    lane.y = y;
    names.push([lane.name, y]);
    lane.draw(svg, y, visible(lane.list(), from, to), lane, to);
    y += lane.height + 8;
  }
  if (sel) outline(svg, used);
  svgEl(svg, "line", { x1: x(S.end), x2: x(S.end), y1: 18, y2: total, class: "nowline" });
  strip.replaceChildren(svg);
  const box = $("names");
  if (box.dataset.key !== names.join()) {
    box.dataset.key = names.join();
    box.replaceChildren(...names.map(([name, at]) => { const span = h("span", {}, name); span.style.top = `${at}px`; return span; }));
  }
}
function grid(svg, from, to, height) {
  const step = [0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600].find((s) => s * zoom > 74) || 7200;
  for (let t = Math.max(0, Math.ceil(from / step) * step); t <= Math.min(to, S.end + 600); t += step) {
    svgEl(svg, "line", { x1: x(t), x2: x(t), y1: 16, y2: height, class: "grid" });
    const label = step < 1 ? clock(t) : clock(t).slice(0, -2);
    svgEl(svg, "text", { x: x(t) + 3, y: 12, class: "tick" }, label);
  }
}
function hit(svg, lane, index, at, b, y, height) {
  const node = svgEl(svg, "rect", { x: x(at) - 3, y, width: Math.max(x(b) - x(at), 4) + 6, height, class: "hit" });
  node.addEventListener("click", () => { select({ lane: lane.key, index }); $("scroll").focus({ preventScroll: true }); });
  node.addEventListener("pointerenter", () => { if (!sel || !sel.pinned) tell(lane, lane.list()[index]); });
}
function outline(svg, used) {
  const lane = used.find((l) => l.key === sel.lane), item = lane && lane.list()[sel.index];
  if (!item) return;
  const end = item.b === undefined ? item.at : item.b ?? S.end;
  const box = { x: x(item.at) - 4, y: lane.y + NAME_HEIGHT, width: Math.max(x(end) - x(item.at), 5) + 8, height: lane.height - NAME_HEIGHT, rx: 2 };
  svgEl(svg, "rect", { ...box, class: "sel" });
  if (document.activeElement === $("scroll")) svgEl(svg, "rect", { ...box, class: "selbox" });
}
function text(svg, px, y, css, value) { svgEl(svg, "text", { x: px, y, class: css }, value); }
const stick = (at, b) => Math.min(Math.max(x(at), $("scroll").scrollLeft + 6), Math.max(x(at), x(b) - 120)); // a label stays in view while its span is
function roomTo(items, i, to) { const next = items[i + 1]; return Math.min(next ? x(next[1].at) - 8 : 1e9, x(to)); }

function drawSpeech(svg, y, items, lane, to) {
  items = thin(items);
  items.forEach(([index, s], i) => {
    const b = s.b ?? S.end;
    svgEl(svg, "rect", { x: x(s.at), y: y + 36, width: Math.max(x(b) - x(s.at), 1.5), height: 7, class: "speech" });
    const start = stick(s.at, b), label = fit(s.text || "", Math.min(roomTo(items, i, to + 30) - start, 900));
    if (label) text(svg, start, y + 30, "say", label);
    hit(svg, lane, index, s.at, b, y + 16, 30);
  });
}
function drawTurns(svg, y, items, lane) {
  for (const [index, t] of thin(items)) {
    const b = t.b ?? S.end;
    if (t.v) {
      const dropped = t.out && (t.out.reason === "continued" || t.out.reason === "turn_over");
      svgEl(svg, "rect", { x: x(t.at), y: y + 21, width: Math.max(x(b) - x(t.at), 2), height: 9, class: dropped ? "hold drop" : "hold" });
      const label = `held ${(b - t.at).toFixed(1)} s`;
      if ((b - t.at) * zoom > 4) text(svg, x(b) + 5, y + 36, "tick teal", label);
    } else {
      svgEl(svg, "rect", { x: x(t.at), y: y + 23, width: Math.max(x(b) - x(t.at), 1), height: 5, class: "turn" });
      if (t.b !== null) svgEl(svg, "rect", { x: x(b) - 1, y: y + 18, width: 2, height: 15, class: "turn" });
    }
    hit(svg, lane, index, t.at, b, y + 15, 24);
  }
}
function drawBot(svg, y, items, lane, to) {
  items = thin(items);
  items.forEach(([index, o], i) => {
    const b = o.b ?? S.end, top = y + 38;
    if (!o.v) { // being said
      svgEl(svg, "rect", { x: x(o.at), y: top, width: Math.max(x(b) - x(o.at), 2), height: 10, class: "word now" });
      hit(svg, lane, index, o.at, b, y + 16, 36);
      return;
    }
    const count = Math.min(400, o.v.heard_text.split(/\s+/).filter(Boolean).length), lost = o.v.unheard_text.split(/\s+/).filter(Boolean).length;
    const width = Math.max(x(b) - x(o.at), 1), each = count ? width / count : width;
    if (each > 3) for (let n = 0; n < count; n++) svgEl(svg, "rect", { x: x(o.at) + n * each, y: top, width: Math.max(each - 1.2, 1), height: 10, class: "word" });
    else if (count) svgEl(svg, "rect", { x: x(o.at), y: top, width, height: 10, class: "word" });
    const slot = Math.max(2.2, Math.min(each, 7)), end = items[i + 1] ? x(items[i + 1][1].at) - 2 : 1e9;
    for (let n = 0; n < Math.min(lost, 40) && x(b) + 2 + (n + 1) * slot < end; n++) svgEl(svg, "rect", { x: x(b) + 2 + n * slot, y: top + 0.5, width: Math.max(slot - 1.4, 1), height: 9, class: "word un" });
    if (o.v.interrupted) svgEl(svg, "line", { x1: x(b), x2: x(b), y1: top - 3, y2: top + 13, class: "onset" });
    const start = stick(o.at, b), label = fit(o.v.heard_text || "", Math.min(roomTo(items, i, to + 30) - start, 900));
    if (label) text(svg, start, y + 31, "say", label);
    hit(svg, lane, index, o.at, b, y + 16, 36);
  });
}
function drawNet(svg, y, items, lane) {
  let free = -1e9;
  for (const [index, n] of items) {
    if (n.b !== undefined) {
      svgEl(svg, "rect", { x: x(n.at), y: y + 19, width: Math.max(x(n.b) - x(n.at), 1.5), height: 4, class: "gap" });
      continue;
    }
    const next = S.net[S.net.indexOf(n) + 1], end = next ? next.at : S.end;
    svgEl(svg, "rect", { x: x(n.at), y: y + 25, width: Math.max(x(end) - x(n.at), 1), height: 5, class: `net-${n.v.band}` });
    const bad = n.v.band === "poor" || n.v.band === "degraded";
    if (bad && x(n.at) > free) { text(svg, x(n.at), y + 42, "tick red", n.v.band); free = x(n.at) + 84; }
    hit(svg, lane, index, n.at, end, y + 16, 26);
  }
}
function drawRates(svg, y, items, lane) {
  if (!items.length) return;
  const values = S.rates.map((r) => r.v.rate), low = Math.min(...values.slice(-500)) - 12, high = Math.max(...values.slice(-500)) + 12;
  const py = (rate) => y + 50 - ((rate - low) / (high - low)) * 18;
  const shown = thin(items);
  let path = "";
  for (const [, r] of shown) path += path ? `H${x(r.at).toFixed(1)}V${py(r.v.rate).toFixed(1)}` : `M${x(r.at).toFixed(1)} ${py(r.v.rate).toFixed(1)}`;
  svgEl(svg, "path", { d: `${path}H${x(S.end).toFixed(1)}`, class: "line" });
  let free = -1e9;
  for (const [index, r] of shown) {
    const label = Math.round(r.v.rate).toString();
    if (x(r.at) > free) { svgEl(svg, "circle", { cx: x(r.at), cy: py(r.v.rate), r: 3, class: "dot" }); text(svg, x(r.at) + 6, py(r.v.rate) - 4, "tick", label); free = x(r.at) + measure(label, 11) + 14; }
    hit(svg, lane, index, r.at, r.at, y + 15, 37);
  }
}
function drawMarks(svg, y, items, lane) {
  const free = [-1e9, -1e9]; // two rows, for what happens at once
  for (const [index, d] of items.length > 400 ? thin(items, 2) : items) {
    const row = x(d.at) > free[0] ? 0 : x(d.at) > free[1] ? 1 : -1, top = y + 18 + Math.max(row, 0) * 18;
    svgEl(svg, "path", { d: `M${x(d.at)} ${top + 15}v-14l8 4-8 4`, class: d.no ? "flag no" : "flag" });
    if (row >= 0) { text(svg, x(d.at) + 11, top + 9, d.no ? "tick red" : "tick teal", d.label); free[row] = x(d.at) + 20 + measure(d.label, 11); }
    hit(svg, lane, index, d.at, d.at + 8 / zoom, top, 17);
  }
}
const PARTS = ["system", "tools", "history", "recalled", "state"];
const sum = (tokens) => PARTS.reduce((total, part) => total + (tokens[part] || 0), 0);
function drawRequests(svg, y, items, lane) {
  const most = S.requests.reduce((best, r) => Math.max(best, sum(r.v.tokens)), 1), floor = y + 82, width = Math.max(4, Math.min(14, zoom * 0.6));
  let free = -1e9;
  items = thin(items, width * 0.7);
  items.forEach(([index, r], i) => {
    let up = floor;
    for (const part of PARTS) {
      const height = ((r.v.tokens[part] || 0) / most) * 50;
      up -= height;
      if (height > 0) svgEl(svg, "rect", { x: x(r.at), y: up, width, height, class: `p-${part}` });
    }
    const label = sum(r.v.tokens).toLocaleString("en");
    const next = items[i + 1], behind = next && x(next[1].at) < x(r.at) + measure(label, 11) && sum(next[1].v.tokens) > sum(r.v.tokens); // of the higher bar
    if (x(r.at) > free && !behind) { text(svg, x(r.at), up - 4, "tick tokens", label); free = x(r.at) + measure(label, 11) + 6; }
    hit(svg, lane, index, r.at, r.at + width / zoom, y + 16, 66);
  });
}
function drawAnswers(svg, y, items, lane) {
  const most = Math.max(1.5, ...S.answers.slice(-300).map((a) => a.v));
  let free = -1e9;
  for (const [index, a] of thin(items, 4)) {
    const height = Math.max(2, (Math.min(a.v, most) / most) * 26);
    svgEl(svg, "rect", { x: x(a.at) - 2, y: y + 54 - height, width: 5, height, class: "lat" });
    const label = secs(a.v);
    if (x(a.at) > free) { text(svg, x(a.at) + 6, y + 53, "tick", label); free = x(a.at) + measure(label, 11) + 14; }
    hit(svg, lane, index, a.at, a.at, y + 16, 38);
  }
}
function drawOther(svg, y, items, lane) {
  let free = -1e9, said = "";
  const labels = []; // above the marks of those that follow
  for (const [index, o] of thin(items, 3)) {
    svgEl(svg, "rect", { x: x(o.at), y: y + 20, width: 2, height: 14, class: "other" });
    const label = fit(brief(o) || "", 180, 11), news = label !== said && label !== QUIET;
    said = label;
    if (label && news && x(o.at) > free) { labels.push([x(o.at) + 6, label]); free = x(o.at) + measure(label, 11) + 14; }
    hit(svg, lane, index, o.at, o.at, y + 16, 20);
  }
  for (const [at, label] of labels) text(svg, at, y + 31, "tick above", label);
}
const QUIET = "nothing to tell";
function acoustics(v) {
  const told = [v.noisy ? "noisy" : "", v.clipped ? "clipped" : "", v.echo ? "echo" : ""].filter(Boolean);
  return told.join(", ") || (typeof v.snr_db === "number" ? `${Math.round(v.snr_db)} dB above the noise` : QUIET);
}
function affect(v) { return v.reading ? `${v.reading.label}, ${Math.round(100 * v.reading.confidence)}% sure` : v.arousal === null ? QUIET : `arousal ${v.arousal.toFixed(2)}`; }
const TOLD = { Acoustics: acoustics, Affect: affect };
function brief(o) {
  const v = o.v;
  if (v && TOLD[o.name]) return TOLD[o.name](v);
  if (v === null || typeof v !== "object") return String(v);
  const told = Object.entries(v).find(([key, value]) => key !== "type" && typeof value === "string");
  return v.event ? o.name : told ? words(told[1]) : Object.entries(v).filter(([key, value]) => key !== "type" && typeof value === "number").slice(0, 2).map(([key, value]) => `${words(key)} ${+value.toFixed(2)}`).join(", ");
}

/* ---- what the panel says: [title, ...nodes] */
const quote = (value) => h("p", {}, `“${value}”`);
const parts = (value) => h("p", { class: "parts" }, value);
function saySpeech(s) { return ["The caller", s.text ? quote(s.text) : parts("Nothing recognised yet."), parts(s.b === null ? "Speaking." : `Spoke for ${(s.b - s.at).toFixed(1)} s.`)]; }
function sayTurn(t) {
  if (!t.v) return ["A turn of the caller", parts(t.b === null ? "It is the caller’s turn." : `The bot took the turn after ${(t.b - t.at).toFixed(1)} s.`)];
  const why = { stall: "no audio was arriving", lost_audio: "audio was missing in the silence", longer_silence: "a longer silence was asked for" }[t.v.reason] || words(t.v.reason);
  const out = t.out && ({ vouched: "then enough silence had really been received", soft_deadline: "then the line was healthy again", hard_deadline: "then the longest hold was over", continued: "then the caller spoke on, and the boundary was dropped", turn_over: "then something else ended the turn" }[t.out.reason] || words(t.out.reason));
  return ["Turn held open", parts(`The end of the turn was proposed and held back, because ${why}; ${out || "it is held now"}.`), parts(`Silence vouched for: ${t.v.vouched_secs.toFixed(2)} s of ${t.v.needed_secs.toFixed(2)} s${t.out ? `; held for ${t.out.held_secs.toFixed(2)} s` : ""}.`)];
}
function sayBot(o) {
  if (!o.v) return ["The bot", parts(o.b === null ? "Speaking; what was heard is settled when it ends." : "Not settled: nothing of it was committed.")];
  const v = o.v, line = h("p", {}, "“", v.heard_text, v.unheard_text ? h("del", {}, ` ${v.unheard_text}`) : null, "”");
  const basis = { word: "the voice’s own word times", duration: "the energy of its audio", none: "whole sentences" }[v.evidence] || words(v.evidence);
  return [v.interrupted ? "The bot, cut off" : "The bot", line, parts(`${v.interrupted ? `Struck out: generated, but not heard. ` : ""}Known by ${basis}${v.estimated ? ", position estimated from the write clock" : ", position acknowledged by the client"}.`)];
}
function sayNet(n) {
  if (n.b !== undefined) return ["Audio that never came", parts(`${n.v.missing_secs.toFixed(2)} s of the caller’s audio never reached the bot.`)];
  const v = n.v, told = [];
  if (v.loss_ratio !== null) told.push(`${(100 * v.loss_ratio).toFixed(1)}% of packets lost`);
  if (v.jitter_secs !== null) told.push(`jitter ${secs(v.jitter_secs)}`);
  if (v.rtt_secs !== null) told.push(`round trip ${secs(v.rtt_secs)}`);
  if (v.concealed_total_secs) told.push(`${v.concealed_total_secs.toFixed(2)} s concealed in this call`);
  if (v.stall_secs) told.push(`nothing for ${v.stall_secs.toFixed(2)} s`);
  if (v.muted) told.push("muted");
  return [`The line: ${v.band}`, parts(told.join("; ") || "Nothing wrong was measured."), parts(v.sources && v.sources.length ? `Measured by ${v.sources.map(words).join(", ")}.` : "Nobody has measured yet.")];
}
function sayRate(r) { return ["The caller’s pace", parts(`${Math.round(r.v.rate)} ${words(r.v.unit)}; the last utterance ${Math.round(r.v.latest_rate ?? r.v.rate)}. From ${plural(r.v.utterances, "utterance")}${r.v.basis ? `, by ${words(r.v.basis)}` : ""}.`)]; }
function sayMark(d) {
  if (d.no) return ["A call that changed nothing", h("p", {}, words(d.v.function || "unknown function")), parts(`${words(d.v.error)}: ${d.v.detail}.`)];
  const said = d.v.text || d.v.reason;
  return ["Directive", h("p", {}, d.label), said ? quote(said) : null, parts(`Decided by: ${words(d.v.origin)}.`)];
}
function sayRequest(r) {
  const removed = r.v.left_out ? `; ${r.v.left_out} messages not shown` : "";
  return ["A request to the model", parts(`${sum(r.v.tokens).toLocaleString("en")} tokens: ${PARTS.filter((p) => r.v.tokens[p]).map((p) => `${PART_NAMES[p].toLowerCase()} ${r.v.tokens[p].toLocaleString("en")}`).join(", ")}${removed}.`), r.v.messages.length ? h("button", { type: "button", onclick: () => showContext(r) }, "Show this request below") : parts("Its messages are too long ago to be kept.")];
}
function sayAnswer(a) { return ["Wait for the answer", parts(`${secs(a.v)} from the caller’s last word to the bot’s first sound.`)]; }
function sayOther(o) { return [spaced(o.name), parts(Object.entries(o.v ?? {}).filter(([key, value]) => key !== "type" && value !== null && typeof value !== "object").map(([key, value]) => `${words(key)} ${typeof value === "number" ? +value.toFixed(3) : words(value)}`).join("; ") || JSON.stringify(o.v).slice(0, 400))]; }

function tell(lane, item) {
  if (!item) return;
  const [title, ...nodes] = lane.say(item);
  $("detail").replaceChildren(h("span", { class: "when" }, `${clock(item.at)}  ${title}`), ...nodes.filter(Boolean));
}
function select(next) {
  const used = lanes(), lane = used.find((l) => l.key === next.lane);
  const item = lane && lane.list()[next.index];
  if (!item) return;
  sel = { ...next, pinned: true };
  const scroll = $("scroll"), at = x(item.at);
  if (at < scroll.scrollLeft + 24 || at > scroll.scrollLeft + scroll.clientWidth - 60) { setFollow(false); scroll.scrollLeft = at - scroll.clientWidth / 3; }
  else if (item.at < S.end - 1) setFollow(false);
  tell(lane, item);
  dirty.lanes = true;
  schedule();
}

/* ---- keyboard and buttons */
function setFollow(on) { follow = on; $("follow").setAttribute("aria-pressed", on); if (on) { dirty.lanes = true; schedule(); } }
function zoomTo(next, keep) {
  const scroll = $("scroll"), middle = keep ?? (follow ? S.end : (scroll.scrollLeft + scroll.clientWidth / 2 - LEFT) / zoom);
  zoom = Math.max(0.05, Math.min(300, next));
  dirty.lanes = true;
  drawNow();
  if (!follow) scroll.scrollLeft = x(middle) - scroll.clientWidth / 2;
  dirty.lanes = true;
  schedule();
}
function fitAll() { zoomTo(($("scroll").clientWidth - LEFT - RIGHT) / Math.max(S.end, 5)); }
$("follow").addEventListener("click", () => setFollow(!follow));
$("in").addEventListener("click", () => zoomTo(zoom * 1.6));
$("out").addEventListener("click", () => zoomTo(zoom / 1.6));
$("fit").addEventListener("click", fitAll);
$("scroll").addEventListener("scroll", () => {
  const scroll = $("scroll");
  if (follow && scroll.scrollLeft < scroll.scrollWidth - scroll.clientWidth - 40) setFollow(false);
  dirty.lanes = true;
  schedule();
}, { passive: true });
$("scroll").addEventListener("focus", () => { dirty.lanes = true; schedule(); });
$("scroll").addEventListener("blur", () => { dirty.lanes = true; schedule(); });
$("scroll").addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const used = lanes().filter((l) => l.list().length);
  if (!used.length) return;
  let row = sel ? used.findIndex((l) => l.key === sel.lane) : -1, index = sel ? sel.index : -1;
  const start = row < 0;
  if (start) { row = 0; index = used[0].list().length - 1; }
  const list = () => used[row].list();
  const jump = (step) => {
    const at = list()[index]?.at ?? S.end;
    row = Math.max(0, Math.min(used.length - 1, row + step));
    const next = firstAfter(list(), at, (i) => i.at), before = list()[next - 1], after = list()[next];
    index = !after || (before && at - before.at <= after.at - at) ? Math.max(0, next - 1) : next;
  };
  switch (event.key) {
    case "ArrowRight": if (!start) index = Math.min(list().length - 1, index + 1); break;
    case "ArrowLeft": if (!start) index = Math.max(0, index - 1); break;
    case "ArrowDown": if (!start) jump(1); break;
    case "ArrowUp": if (!start) jump(-1); break;
    case "Home": index = 0; break;
    case "End": index = list().length - 1; break;
    case "+": case "=": zoomTo(zoom * 1.6); event.preventDefault(); return;
    case "-": zoomTo(zoom / 1.6); event.preventDefault(); return;
    case "0": fitAll(); event.preventDefault(); return;
    case "f": case "F": setFollow(!follow); return;
    case "Escape": sel = null; dirty.lanes = true; hint(); schedule(); return;
    default: return;
  }
  event.preventDefault();
  select({ lane: used[row].key, index });
});
function hint() {
  $("detail").replaceChildren(h("span", { class: "when" }, "Point at anything or tap it"), h("p", { class: "parts keyboard" }, h("kbd", {}, "←"), " ", h("kbd", {}, "→"), " walk through a lane, ", h("kbd", {}, "↑"), " ", h("kbd", {}, "↓"), " change it, ", h("kbd", {}, "+"), " ", h("kbd", {}, "−"), " zoom, ", h("kbd", {}, "0"), " the whole call, ", h("kbd", {}, "F"), " follow."));
}

/* ---- now */
function figure(name, value, unit, why, css) {
  const dd = h("dd", { class: css || "" }, value, unit ? h("small", {}, ` ${unit}`) : null);
  return h("div", {}, h("dt", {}, name), dd, why ? h("dd", { class: "why" }, why) : null);
}
function drawFigures() {
  const rate = S.rates[S.rates.length - 1], net = S.netNow, hold = open(S.holds), turn = open(S.turns), speech = open(S.speech), bot = open(S.bot);
  const request = S.requests[S.requests.length - 1], waits = S.answers.map((a) => a.v), lastWait = waits[waits.length - 1];
  const floor = hold ? ["held open", words(hold.v.reason), "ok"] : bot ? ["the bot’s", "speaking", ""] : speech ? ["the caller’s", "speaking", ""] : turn ? ["the caller’s", "pausing", ""] : ["nobody’s", "", ""];
  const bad = net && (net.band === "poor" || net.band === "degraded");
  const loss = net && net.loss_ratio !== null ? `${(100 * net.loss_ratio).toFixed(1)}% lost` : net && net.muted ? "muted" : "";
  $("now").replaceChildren(
    figure("Whose turn", floor[0], "", floor[1], floor[2]),
    figure("The line", net ? words(net.band) : "–", "", [loss, net && net.rtt_secs !== null ? `round trip ${secs(net.rtt_secs)}` : ""].filter(Boolean).join(", "), bad ? "bad" : net && net.band === "good" ? "ok" : ""),
    figure("The caller’s pace", rate ? Math.round(rate.v.rate) : "–", rate ? unit(rate.v.unit) : "", rate ? `from ${plural(rate.v.utterances, "utterance")}` : "not known yet"),
    figure("The bot’s pace", S.speedNow ? Math.round(S.speedNow) : "–", S.speedNow ? "wpm" : "", S.speedNow ? "" : "no speed control, or never set"),
    figure("Window", request ? sum(request.v.tokens).toLocaleString("en") : "–", request ? "tokens" : "", S.projected ? `${plural(S.projected.kept_exchanges, "exchange")} word for word` : ""),
    figure("Wait for the answer", lastWait === undefined ? "–" : lastWait.toFixed(2), lastWait === undefined ? "" : "s", waits.length > 1 ? `median ${quantile(waits, 0.5).toFixed(2)} s of ${waits.length}` : ""),
  );
  const begun = S.header.started_wall_secs ? new Date(S.header.started_wall_secs * 1000) : null;
  $("title").textContent = S.header.title || "A call";
  document.title = `${S.header.title || "A call"}: voicectx inspector`;
  const told = [begun && begun.getFullYear() > 2000 ? `Watched since ${begun.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" })}` : "", clock(S.end), plural(S.events.length, "event"), S.dropped ? `${plural(S.dropped, "event")} dropped` : "", S.header.texts === "masked" ? "words masked" : ""];
  $("standfirst").textContent = told.filter(Boolean).join(", ");
}
const unit = (name) => ({ words_per_minute: "wpm", characters_per_minute: "chars/min" })[name] || words(name);
function quantile(values, q) { const sorted = [...values].sort((a, b) => a - b); return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]; }

/* ---- the window */
const PART_NAMES = { system: "Application", tools: "Functions", history: "Conversation", recalled: "Recalled", state: "Voice state" };
const FIDELITIES = ["audio", "transcript", "summary"];
let pinnedContext = null;
function showContext(request) { pinnedContext = request; dirty.context = true; schedule(); $("window-h").scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" }); }
function drawContext() {
  const shown = pinnedContext || S.lastContext, bar = $("window-bar"), list = $("messages");
  if (!shown) { bar.replaceChildren(); list.replaceChildren(h("li", { class: "empty" }, "Nothing was sent to the model yet.")); return; }
  const tokens = shown.v.tokens, total = sum(tokens) || 1, stack = h("div", { class: "stack", role: "img", "aria-label": PARTS.filter((p) => tokens[p]).map((p) => `${PART_NAMES[p]} ${tokens[p]}`).join(", ") });
  for (const part of PARTS) if (tokens[part]) { const span = h("span", { class: `c-${part}` }); span.style.flexGrow = tokens[part]; stack.append(span); }
  const keys = h("ul", { class: "keys" }, ...PARTS.filter((p) => tokens[p]).map((p) => h("li", {}, h("i", { class: `c-${p}` }), `${PART_NAMES[p]} `, h("b", {}, tokens[p].toLocaleString("en")))));
  const pages = recalledAt(shown.at);
  const counts = {};
  for (const page of pages) counts[page.fidelity] = (counts[page.fidelity] || 0) + 1;
  for (const kind of FIDELITIES) if (counts[kind]) keys.append(h("li", {}, h("i", { class: `c-${kind}` }), "of it as ", kind === "audio" ? "audio " : `${plural(counts[kind], kind, kind === "summary" ? "summaries" : undefined).replace(/^\d+ /, "")} `, h("b", {}, counts[kind])));
  if (!pinnedContext && S.projected && S.projected.omitted) keys.append(h("li", {}, h("i", { class: "c-omitted" }), "did not fit ", h("b", {}, S.projected.omitted)));
  bar.replaceChildren(stack, keys);
  const when = $("window-when");
  when.replaceChildren(`${pinnedContext ? "the" : "latest"} request, ${clock(shown.at)}, ${total.toLocaleString("en")} tokens`);
  if (pinnedContext) when.append(" ", h("button", { type: "button", onclick: () => { pinnedContext = null; dirty.context = true; schedule(); } }, "Latest"));
  list.replaceChildren(...shown.v.messages.map((m, i) => message(m, pages, i === Math.floor(shown.v.messages.length / 2) ? shown.v.left_out : 0)));
}
function recalledAt(at) {
  let found = null;
  for (let i = S.events.length - 1; i >= 0; i--) { const e = S.events[i]; if (e.k === "recall" && e.at <= at + 0.3) { found = e.v; break; } }
  return found ? found.pages || [] : [];
}
const ROLES = { system: "Application", developer: "Application", user: "Caller", assistant: "Bot", tool: "Result", tools: "Functions" };
function message(m, pages) {
  const name = m.part === "recalled" ? "Recalled" : m.part === "state" ? "Voice state" : ROLES[m.role] || words(m.role);
  const small = m.part !== "history" || m.role === "tool" || m.role === "tools";
  const body = h("div", { class: `t${small ? " small" : ""}` });
  if (m.part === "recalled") for (const line of m.text.split("\n")) {
    if (/^<\/?recalled_context>$/.test(line)) continue;
    const said = line.replace(/^- /, ""), page = line.startsWith("- ") ? pages.find((p) => same(p.text, said)) : null;
    body.append(page ? h("p", { class: `fid ${page.fidelity}`, title: `score ${page.score}` }, said, h("small", {}, `  ${page.fidelity}`)) : h("p", {}, said));
  }
  else if (m.part === "state") body.append(m.text.replace(/<\/?voice_state>/g, "").trim());
  else body.append(m.text || "(nothing)");
  const row = h("li", {}, h("span", { class: `who ${m.part}` }, name), body, h("span", { class: "n" }, m.tokens.toLocaleString("en")));
  if (m.text.length > 420 && m.part !== "recalled") {
    body.classList.add("clip");
    const more = h("button", { type: "button", class: "more", "aria-expanded": "false", onclick: () => { const shown = body.classList.toggle("clip"); more.textContent = shown ? "More" : "Less"; more.setAttribute("aria-expanded", !shown); } }, "More");
    row.append(more);
  }
  return row;
}
const plain = (value) => value.replace(/[<>‹›\s]+/g, "").slice(0, 120);
const same = (a, b) => plain(a) === plain(b);

/* ---- threads: a line for each thread, a stop for each page it holds */
let notedPage = null;
function drawThreads() {
  const box = $("threads");
  if (!S.threads || !S.threads.pages.length) { box.replaceChildren(h("p", { class: "empty" }, "No page is kept yet; one is, after each exchange.")); $("threads-count").textContent = ""; return; }
  const { pages, threads } = S.threads, column = new Map(pages.map((p, i) => [p.id, i]));
  const recalled = new Map(((S.recall && S.recall.v.pages) || []).map((p) => [p.page_id, p.fidelity]));
  const order = [...threads].sort((a, b) => (column.get(a.pages[0]) ?? 0) - (column.get(b.pages[0]) ?? 0)).slice(-14);
  const step = Math.max(20, Math.min(46, (box.clientWidth - 40) / Math.max(pages.length, 1))), row = 42, top = 34;
  const px = (i) => 14 + i * step, width = Math.max(box.clientWidth - 2, px(pages.length - 1) + 30), height = top + order.length * row + 34;
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("width", width); svg.setAttribute("height", height);
  svg.setAttribute("role", "img"); svg.setAttribute("aria-label", `${plural(threads.length, "thread")} over ${plural(pages.length, "page")}`);
  let before = null;
  pages.forEach((p, i) => {
    if (p.session !== before) {
      if (before !== null) svgEl(svg, "line", { x1: px(i) - step / 2, x2: px(i) - step / 2, y1: 6, y2: height - 6, class: "callrule" });
      const label = fit(p.this_call ? "this call" : new Date(p.wall * 1000).toLocaleDateString([], { month: "short", day: "numeric" }), step * pages.slice(i).filter((o) => o.session === p.session).length, 11);
      if (label) text(svg, px(i) - 5, 16, p.this_call ? "tick teal" : "tick", label);
      before = p.session;
    }
  });
  order.forEach((t, n) => {
    const cols = t.pages.map((id) => column.get(id)).filter((c) => c !== undefined).sort((a, b) => a - b), y = top + n * row + 22;
    if (!cols.length) return;
    const on = t.pages.some((id) => recalled.has(id));
    svgEl(svg, "line", { x1: px(cols[0]), x2: px(cols[cols.length - 1]), y1: y, y2: y, class: on ? "thread on" : "thread" });
    const name = topic(t), room = width - px(cols[0]) - 4, wide = measure(name, 12) > room && px(cols[0]) > width / 2;
    const label = svgEl(svg, "text", { x: wide ? px(cols[cols.length - 1]) + 6 : px(cols[0]) - 6, y: y - 11, class: on ? "say teal" : "say" }, fit(name, wide ? px(cols[cols.length - 1]) : room));
    if (wide) label.setAttribute("text-anchor", "end");
    for (const c of cols) stop(svg, pages[c], px(c), y, recalled.get(pages[c].id));
  });
  const loose = pages.filter((p) => !order.some((t) => t.pages.includes(p.id)));
  const base = height - 14;
  if (loose.length) { text(svg, 2, base - 12, "tick", order.length ? "in no thread yet" : ""); for (const p of loose) stop(svg, p, px(column.get(p.id)), base, recalled.get(p.id)); }
  box.replaceChildren(svg);
  $("threads-count").textContent = `${plural(threads.length, "thread")}, ${plural(S.threads.all_pages, "page")}${S.threads.all_pages > pages.length ? `, the newest ${pages.length} shown` : ""}`;
  box.scrollLeft = box.scrollWidth;
}
function topic(t) { // what its pages share, else how it began
  const shared = (t.summary || "").match(/^\d+ exchanges about ([^;]+);/);
  const first = S.threads.pages.find((p) => t.pages.includes(p.id));
  return shared ? shared[1] : (first && (first.user || first.bot)) || plural(t.size, "page");
}
function stop(svg, page, cx, cy, fidelity) {
  const node = svgEl(svg, "circle", { cx, cy, r: 5.5, class: `stop ${fidelity || ""}${notedPage === page.id ? " on" : ""}` });
  svgEl(node, "title", {}, `Page ${page.index + 1}: ${page.summary || page.user}`);
  node.addEventListener("pointerenter", () => notePage(page));
  node.addEventListener("click", () => { notedPage = page.id; notePage(page); dirty.threads = true; schedule(); });
}
function notePage(page) {
  $("page-note").textContent = `Page ${page.index + 1}${page.this_call ? "" : ", an earlier call"}. ${page.user ? `Caller: “${page.user}” ` : ""}${page.bot ? `Bot${page.interrupted ? ", cut off" : ""}: “${page.bot}”` : ""}`;
}
$("threads").addEventListener("keydown", (event) => {
  if (!S.threads || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
  const pages = S.threads.pages, now = pages.findIndex((p) => p.id === notedPage);
  const next = now < 0 ? pages.length - 1 : Math.max(0, Math.min(pages.length - 1, now + (event.key === "ArrowRight" ? 1 : -1)));
  if (pages[next]) { notedPage = pages[next].id; notePage(pages[next]); dirty.threads = true; schedule(); }
  event.preventDefault();
});

/* ---- facts and persona */
function sources(ids) {
  const pages = S.threads ? S.threads.pages : [], known = ids.map((id) => pages.find((p) => p.id === id)).filter(Boolean).slice(-4);
  const span = h("span", { class: "src" });
  if (!ids.length) span.textContent = "no source";
  else if (!known.length) span.textContent = plural(ids.length, "source");
  else { span.append(known.length === 1 ? "page" : "pages"); for (const page of known) span.append(h("button", { type: "button", "aria-label": `page ${page.index + 1}${page.this_call ? "" : ", an earlier call"}`, title: page.summary || page.user, onclick: () => { notedPage = page.id; notePage(page); dirty.threads = true; schedule(); $("threads-h").scrollIntoView({ block: "nearest" }); } }, page.this_call ? String(page.index + 1) : `earlier ${page.index + 1}`)); }
  return span;
}
function drawFacts() {
  const list = $("facts");
  if (!S.facts || (!S.facts.facts.length && !S.facts.persona.length)) { list.replaceChildren(h("li", { class: "empty" }, S.facts ? "Nothing yet." : "This bot keeps no facts.")); $("facts-count").textContent = ""; return; }
  const day = (wall) => new Date(wall * 1000).toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" });
  const rows = S.facts.facts.slice(0, 60).map((f) => h("li", {}, h("span", { class: f.to_wall ? "was" : "" }, f.statement), sources(f.sources), h("span", { class: "meta" }, `${f.to_wall ? `${words(f.ended || "ended")} ${day(f.to_wall)}, since` : "since"} ${day(f.from_wall)}, confidence ${f.confidence.toFixed(1)}`)));
  if (S.facts.persona.length) {
    rows.push(h("li", { class: "head" }, "How they feel, and what they are like"));
    for (const p of S.facts.persona.slice(0, 24)) {
      const bar = h("i", { class: p.valence < 0 ? "neg" : "" }), half = Math.min(1, Math.abs(p.valence)) * 50;
      bar.style.width = `${half}%`; bar.style.left = p.valence < 0 ? `${50 - half}%` : "50%";
      rows.push(h("li", {}, h("span", {}, p.description), sources(p.sources), h("span", { class: "meta" }, h("span", { class: "valence", role: "img", "aria-label": `valence ${p.valence.toFixed(2)}` }, bar), `${p.label}, ${plural(p.total, "turn")}`)));
    }
  }
  list.replaceChildren(...rows);
  $("facts-count").textContent = `${plural(S.facts.all_facts, "fact")}${S.facts.persona.length ? `, ${plural(S.facts.persona.length, "persona node")}` : ""}`;
}

/* ---- latencies */
const METRICS = { ttfb: "first byte", processing: "work", projection: "projection" };
function drawLatencies() {
  const rows = [];
  if (S.answers.length) rows.push(["From the caller’s last word to the bot’s first sound", S.answers.map((a) => a.v), true]);
  for (const [key, values] of [...S.metrics].sort()) { const [where, what] = key.split("\u0000"); rows.push([`${where.replace(/#\d+$/, "")}, ${METRICS[what] || words(what)}`, values, false]); }
  const holds = S.holds.filter((o) => o.out).map((o) => o.out.held_secs);
  if (holds.length) rows.push(["Turns held open", holds, false]);
  const table = $("latencies");
  if (!rows.length) { table.replaceChildren(h("caption", { class: "empty" }, "Nothing was measured yet. With enable_metrics=True, Pipecat’s services report theirs.")); return; }
  const head = h("thead", {}, h("tr", {}, ...["what", "last", "median", "95% within", "times", "the last forty"].map((name, i) => h("th", { scope: "col", class: i && i < 5 ? "n" : i === 5 ? "spark" : "" }, i ? name : h("span", { class: "sr" }, name)))));
  const body = h("tbody", {}, ...rows.map(([name, values, first]) => h("tr", { class: first ? "first" : "" }, h("th", { scope: "row" }, name), ...[values[values.length - 1], quantile(values, 0.5), quantile(values, 0.95)].map((v) => h("td", { class: "n" }, secs(v))), h("td", { class: "n" }, values.length.toLocaleString("en")), h("td", { class: "spark" }, spark(values.slice(-40))))));
  table.replaceChildren(head, body);
}
function spark(values) {
  const svg = document.createElementNS(NS, "svg"), most = Math.max(...values) || 1;
  svg.setAttribute("width", 40 * 6); svg.setAttribute("height", 20); svg.setAttribute("aria-hidden", "true");
  values.forEach((v, i) => { const height = Math.max(1.5, (v / most) * 19); svgEl(svg, "rect", { x: i * 6, y: 20 - height, width: 4, height, class: "lat" }); });
  return svg;
}

/* ---- every event */
function summary(e) { const value = { ...e.v }; delete value.type; return JSON.stringify(value).slice(0, 300); }
function drawLog() {
  if (!$("log").open) return;
  const wanted = $("filter").value.trim().toLowerCase(), rows = [];
  for (let i = S.events.length - 1; i >= 0 && rows.length < MAX_ROWS; i--) {
    const e = S.events[i];
    if (wanted && !e.k.includes(wanted) && !JSON.stringify(e.v).toLowerCase().includes(wanted)) continue;
    rows.push(h("li", {}, h("span", {}, clock(e.at)), h("span", {}, words(e.k)), h("span", {}, summary(e))));
  }
  $("rows").replaceChildren(...rows);
}
$("log").addEventListener("toggle", () => { dirty.log = true; schedule(); });
$("filter").addEventListener("input", () => { dirty.log = true; schedule(); });

/* ---- drawing, at most once a frame */
function schedule() { if (!frame) frame = requestAnimationFrame(() => { frame = 0; drawNow(); }); }
const PAINT = { lanes: drawLanes, now: drawFigures, context: drawContext, threads: drawThreads, facts: drawFacts, latency: drawLatencies, log: drawLog };
function drawNow() {
  for (const key in PAINT) if (dirty.all || dirty[key]) { dirty[key] = false; PAINT[key](); }
  dirty.all = false;
}
let known = 0;
new ResizeObserver(() => { const width = $("scroll").clientWidth; if (width !== known) { known = width; dirty.lanes = dirty.threads = true; schedule(); } }).observe($("scroll"));

/* ---- where events come from */
function status(name, css) { $("status").textContent = name; $("status").className = `status ${css || ""}`; }
function recorded(data) {
  reset(data.session);
  setFollow(false);
  take(data.events);
  status("recorded");
  zoomTo(Math.max(10, ($("scroll").clientWidth - LEFT - RIGHT) / Math.max(S.end, 5)), 0);
}
async function live() {
  let sessions;
  try {
    const answer = await fetch(`${BASE}/api/sessions`, { cache: "no-store" });
    if (answer.status === 404) { status("waiting for a call"); setTimeout(live, 2000); return; } // a bot that shows the page from its first call on
    if (!answer.ok) throw new Error(await answer.text());
    sessions = await answer.json();
  } catch (error) { status("the bot does not answer", "lost"); setTimeout(live, 2000); return; }
  const wanted = location.pathname.split("/s/")[1], session = wanted ? sessions.find((s) => s.id === wanted) : sessions.filter((s) => !s.ended).pop() || sessions[sessions.length - 1];
  list(sessions, session);
  if (!session) { status(wanted ? "this session is gone" : "waiting for a call", wanted ? "lost" : ""); if (!wanted) setTimeout(live, 2000); return; }
  const feed = new EventSource(`${BASE}/api/sessions/${session.id}/events`);
  feed.addEventListener("session", (event) => { const before = zoom; reset(JSON.parse(event.data)); zoom = before; setFollow(follow); schedule(); });
  feed.onmessage = (event) => { status("live", "live"); take(JSON.parse(event.data)); };
  feed.onopen = () => status("live", "live");
  feed.addEventListener("ended", () => { feed.close(); status("ended"); if (!wanted) setTimeout(next, 2000, session.id); });
  feed.onerror = () => { status("connection lost, trying again", "lost"); if (feed.readyState === EventSource.CLOSED) setTimeout(live, 2000); };
}
async function next(seen) { // after a call, the next one
  try {
    const sessions = await (await fetch(`${BASE}/api/sessions`, { cache: "no-store" })).json();
    list(sessions, sessions.find((s) => s.id === seen));
    if (sessions.some((s) => !s.ended && s.id !== seen)) { live(); return; }
  } catch (error) { status("the bot does not answer", "lost"); }
  setTimeout(next, 2000, seen);
}
function list(sessions, current) {
  $("sessions").hidden = sessions.length < 2;
  $("sessions").replaceChildren(...sessions.slice(-12).reverse().map((s) => h("a", { href: `${BASE}/s/${s.id}`, "aria-current": current && s.id === current.id ? "page" : false }, `${s.title || s.id}, ${new Date(s.begun_wall_secs * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}${s.ended ? ", ended" : ""}`)));
}

reset(null);
hint();
drawNow();
const data = $("data");
if (data) recorded(JSON.parse(data.textContent)); else live();
setInterval(() => { if (S.events.length && !data && $("status").classList.contains("live") && (open(S.speech) || open(S.bot) || open(S.holds))) { dirty.lanes = dirty.now = true; schedule(); } }, 500);
})();
