"use strict";
(() => {
const D = JSON.parse(document.getElementById("data").textContent);
const NS = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
const esc = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const wishes = D.wishes.map((p) => new RegExp(p, "gi"));
const marked = (text) => wishes.reduce((html, wish) => html.replace(wish, (m) => `<mark>${m}</mark>`), esc(text));
const ENVELOPE_SECS = 0.02, WORD_ZOOM = 84, MAX_ZOOM = 220;

const pen = document.createElement("canvas").getContext("2d");
const measure = (text, size) => { pen.font = `${size}px system-ui, sans-serif`; return pen.measureText(text).width * 1.03; };
function fit(text, width, size = 12) {
  if (measure(text, size) <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(text.slice(0, middle).trimEnd() + "…", size) <= width) low = middle; else high = middle - 1;
  }
  return low > 3 ? text.slice(0, low).trimEnd() + "…" : "";
}
function el(parent, name, attributes = {}, text) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}
const clock = (t) => `${Math.floor(t / 60)}:${(t % 60).toFixed(1).padStart(4, "0")}`;
const wave = (id, from, to) => (D.envelopes[id] || []).slice(Math.round(from / ENVELOPE_SECS), Math.round(to / ENVELOPE_SECS));

/* One pass on a time axis. `x` maps seconds to pixels; returns the height used and the lanes' names with their y. */
const HEIGHTS = { caller: 66, received: 44, turn: 38, bot: 62, state: 50, directive: 38, tokens: 84 };
const TITLES = {
  caller: "What the caller says", received: "What the bot receives", turn: "The caller’s turn, as the bot sees it",
  bot: "What the bot says, when the caller hears it", state: "What the plugin knows", directive: "What it changes",
  tokens: "Tokens sent to the model",
};
function drawPass(svg, pass, { y0, x, z, lanes, from = -1, to = 1e9, onMark }) {
  const names = [];
  let y = y0;
  const inside = (a, b) => b >= from && a <= to;
  const painter = {
    caller(top) {
      for (const u of pass.utterances.filter((u) => inside(u.at, u.end))) {
        const g = mark(u.at, u.end, top, HEIGHTS.caller, `Caller: ${u.text}`, () => detailUtterance(pass, u));
        waveform(g, u, top + 33, u.at, u.end, "wave");
        for (const [a, b] of u.lost) el(g, "rect", { x: x(a), y: top + 18, width: x(b) - x(a), height: 30, class: "wave lost" });
        words(g, u.words, top + 62, u.text, u.at, roomAfter(pass.utterances, u), (w) => u.lost.some(([a, b]) => w[1] < b && w[2] > a) ? "say red" : "say");
      }
    },
    received(top) {
      for (const u of pass.utterances.filter((u) => inside(u.at, u.end))) {
        let at = u.at;
        for (const [a, b] of holes(u)) { waveform(svg, u, top + 30, at, a, "wave got"); at = Math.max(at, b); }
        waveform(svg, u, top + 30, at, u.end, "wave got");
      }
      for (const [a, b] of pass.gaps.filter(([a, b]) => b - a > 0.25 && inside(a, b))) {
        const g = mark(a, b, top, HEIGHTS.received, `${(b - a).toFixed(1)} seconds of audio never arrived`, () => [a, "Lost on the way", `<p>${(b - a).toFixed(2)} seconds of the caller’s audio never reached the bot. No silence was received either: nothing was.</p>`]);
        el(g, "rect", { x: x(a), y: top + 17, width: x(b) - x(a), height: 26, class: "hole" });
        const label = fit(`${(b - a).toFixed(1)} s lost`, Math.max(x(b) - x(a) - 6, 0), 11);
        if (label) el(g, "text", { x: x(a) + 4, y: top + 34, class: "tick red" }, label);
      }
    },
    turn(top) {
      for (const t of pass.turns.filter((t) => inside(t.at, t.end))) {
        const g = mark(t.at, t.end, top, HEIGHTS.turn, t.cut ? "Turn taken while the caller was still speaking" : "A turn of the caller", () => [t.at, t.cut ? "Turn cut off" : "Turn", `<p>${t.cut ? "The bot took the turn here, in the middle of the caller’s sentence, because nothing arrived." : `The bot let the caller finish: ${(t.end - t.at).toFixed(1)} s.`}</p>`]);
        el(g, "rect", { x: x(t.at), y: top + 24, width: Math.max(x(t.end) - x(t.at), 1), height: 5, class: "turn" });
        el(g, "rect", { x: x(t.end) - 1, y: top + 19, width: 2, height: 15, class: t.cut ? "cut" : "turn" });
        if (t.cut) el(g, "text", { x: x(t.end) + 5, y: top + 37, class: "tick red" }, "cut off here");
      }
      for (const h of pass.holds.filter((h) => inside(h.at, h.end))) {
        const g = mark(h.at, h.end, top, HEIGHTS.turn, `Turn held open for ${(h.end - h.at).toFixed(1)} seconds`, () => [h.at, "Turn held open", `<p>The end of the turn was proposed, and held back for ${(h.end - h.at).toFixed(1)} s: silence that was never received is no silence.</p><p class="parts">${esc(h.why)}</p>`]);
        el(g, "rect", { x: x(h.at), y: top + 22, width: Math.max(x(h.end) - x(h.at), 2), height: 9, class: "hold" });
        if (h.end - h.at > 0.4) el(g, "text", { x: x(h.end) + 5, y: top + 37, class: "tick teal" }, `held ${(h.end - h.at).toFixed(1)} s`);
      }
    },
    bot(top) {
      for (const b of pass.bot_turns.filter((b) => inside(b.at, b.end))) {
        const text = b.words.filter((w) => w[3]).map((w) => w[0]).join(" ");
        const g = mark(b.at, b.end, top, HEIGHTS.bot, `Bot: ${text}`, () => detailBot(pass, b));
        words(g, b.words, top + 31, text, b.at, roomAfter(pass.bot_turns, b), (w) => w[3] ? "say" : "say red");
        for (const w of b.words) el(g, "rect", { x: x(w[1]), y: top + 37, width: Math.max((w[2] - w[1]) * z - Math.min(1.2, z / 12), 0.8), height: 11, class: w[3] ? "word" : "word un" });
      }
      for (const barge of pass.barge_ins.filter((e) => inside(e.at, e.at))) {
        const over = barge.believed.length - barge.agreed;
        el(svg, "line", { x1: x(barge.at), x2: x(barge.at), y1: y0 + 16, y2: top + 58, class: `onset${over > 0 ? "" : " fine"}` });
        const g = mark(barge.at, barge.at + 6 / z, top + 46, 16, "The caller barges in", () => detailBarge(barge));
        el(g, "text", { x: x(barge.at) + 4, y: top + 60, class: `tick ${over > 0 ? "red" : "teal"}` }, over > 0 ? `barged in; the model believes ${over} more ${over === 1 ? "word was" : "words were"} said` : "barged in; the model knows exactly what was heard");
      }
    },
    state(top) {
      const bands = pass.states.filter((s) => s.kind === "network");
      let lineFree = -1e9;
      bands.forEach((s, i) => {
        const end = i + 1 < bands.length ? bands[i + 1].at : pass.duration_secs;
        if (!inside(s.at, end)) return;
        const g = mark(s.at, end, top + 26, 26, `Line: ${s.label}`, () => [s.at, `The line: ${s.label}`, `<p>Judged from what arrived, not from what was said, until ${clock(end)}.</p>`]);
        el(g, "rect", { x: x(s.at), y: top + 33, width: Math.max(x(end) - x(s.at), 1), height: 4, class: `net-${s.label}` });
        const bad = s.label === "poor" || s.label === "degraded";
        if (bad && x(s.at) > lineFree) { el(g, "text", { x: x(s.at), y: top + 50, class: "tick red" }, `line ${s.label}`); lineFree = x(s.at) + 80; }
      });
      let free = -1e9, first = true;
      for (const s of pass.states.filter((s) => s.kind === "rate" && inside(s.at, s.at))) {
        const g = mark(s.at, s.at + 14 / z, top + 12, 20, `Caller’s rate: ${s.label} words per minute`, () => [s.at, "The caller’s pace", `<p>${s.label} words a minute, a weighted mean of the last utterances.</p>`]);
        const label = first ? `${s.label} words a minute` : s.label;
        if (x(s.at) < free) continue;
        el(g, "text", { x: x(s.at), y: top + 29, class: "tick" }, label);
        free = x(s.at) + measure(label, 11) + 8;
        first = false;
      }
    },
    directive(top) {
      let free = -1e9;
      for (const d of pass.directives.filter((d) => inside(d.at, d.at))) {
        const g = mark(d.at, d.at + 12 / z, top + 12, 24, d.label, () => [d.at, "Directive", `<p>${esc(d.label)}</p><p class="parts">${esc(d.why)}</p>`]);
        el(g, "path", { d: `M${x(d.at)} ${top + 34}v-15l8 4-8 4`, class: "flag", stroke: "none" });
        if (x(d.at) > free) { el(g, "text", { x: x(d.at) + 10, y: top + 28, class: "tick teal" }, d.label); free = x(d.at) + 18 + measure(d.label, 11); }
      }
    },
    tokens(top) {
      const floor = top + 80, scale = 50 / D.max_tokens, width = Math.max(5, Math.min(16, z * 0.7));
      const shown = pass.requests.filter((r) => inside(r.at, r.at));
      const near = (r) => shown.filter((o) => Math.abs(x(o.at) - x(r.at)) < 30);
      for (const r of shown) {
        const g = mark(r.at, r.at + width / z, top + 14, 70, `${r.tokens} tokens`, () => detailRequest(r));
        let up = floor;
        for (const part of ["system", "tools", "history", "recalled", "state"]) {
          const height = (r.parts[part] || 0) * scale;
          up -= height;
          if (height > 0) el(g, "rect", { x: x(r.at), y: up, width, height, class: `p-${part}` });
        }
        const tallest = near(r).reduce((best, o) => (o.tokens > best.tokens ? o : best));
        if (tallest === r) el(g, "text", { x: x(r.at), y: up - 4, class: "tick" }, r.tokens.toLocaleString("en"));
      }
    },
  };
  function roomAfter(list, item) {
    const next = list.find((o) => o.at > item.at);
    return Math.min(next ? next.at - 8 / z : Math.max(item.end, pass.duration_secs), to);
  }
  function holes(u) { return pass.gaps.filter(([a, b]) => a < u.end && b > u.at && b - a > 0.03); }
  function mark(a, b, top, height, label, detail) {
    const g = el(svg, "g", { class: "mark", role: "button", tabindex: -1, "aria-label": label });
    el(g, "rect", { x: x(a) - 2, y: top, width: Math.max(x(b) - x(a), 6) + 4, height, class: "hit" });
    if (onMark) onMark(g, a, painter.lane, detail);
    return g;
  }
  function waveform(parent, u, middle, a, b, css) {
    const values = wave(u.id, a - u.at, b - u.at);
    if (values.length < 2) return;
    const px = (i) => (x(a) + i * ENVELOPE_SECS * z).toFixed(1);
    const up = values.map((v, i) => `${px(i)} ${(middle - 0.5 - v * 0.14).toFixed(1)}`);
    const down = values.map((v, i) => `${px(i)} ${(middle + 0.5 + v * 0.14).toFixed(1)}`).reverse();
    el(parent, "path", { d: `M${up.join("L")}L${down.join("L")}Z`, class: css });
  }
  function words(parent, list, base, text, a, b, css) {
    if (z < WORD_ZOOM) {
      const label = fit(text, x(b) - x(a));
      if (label) el(parent, "text", { x: x(a), y: base, class: "say" }, label);
      return;
    }
    list.forEach((w, i) => {
      const next = i + 1 < list.length ? list[i + 1][1] : w[2] + 0.5;
      const slot = Math.max((next - w[1]) * z - 3, 4), natural = measure(w[0], 12);
      const squeezed = natural > slot ? { textLength: slot.toFixed(1), lengthAdjust: "spacingAndGlyphs" } : {};
      el(parent, "text", { x: x(w[1]).toFixed(1), y: base, class: css(w), ...squeezed }, w[0]);
    });
  }
  for (const lane of lanes) {
    names.push([lane, y]);
    painter.lane = lane;
    painter[lane](y);
    y += HEIGHTS[lane] + 8;
  }
  return { height: y - y0, names };
}

function hatch(svg, id = "hatch") {
  const defs = el(svg, "defs");
  const p = el(defs, "pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  el(p, "rect", { width: 2, height: 6, style: "fill:var(--alarm);opacity:.35" });
}

/* What the panel says about a mark: [time, title, html]. */
function detailUtterance(pass, u) {
  const text = u.words.map((w) => u.lost.some(([a, b]) => w[1] < b && w[2] > a) ? `<del>${esc(w[0])}</del>` : esc(w[0])).join(" ").replaceAll("</del> <del>", " ");
  const lost = u.lost.length ? `, ${u.lost.map(([a, b]) => (b - a).toFixed(1)).join(" + ")} s of it lost on the way` : "";
  const play = D.audio[u.id] ? `<button type="button" data-play="${esc(u.id)}">▶ Listen</button>` : "";
  return [u.at, "The caller", `<p>“${text}”</p><p class="parts">${Math.round(u.wpm)} words a minute${lost}</p>${play}`];
}
function detailBot(pass, b) {
  const heard = b.words.filter((w) => w[3]).map((w) => w[0]).join(" "), un = b.words.filter((w) => !w[3]).map((w) => w[0]).join(" ");
  return [b.at, "The bot", `<p>“${marked(heard)}${un ? ` <del>${esc(un)}</del>` : ""}”</p>` +
    `<p class="parts">${b.wpm ? `${b.wpm} words a minute. ` : ""}${un ? "Struck out: sent, but after the caller had set in. " : ""}${b.unsaid ? `Generated and never spoken: “${esc(b.unsaid)}”` : ""}</p>`];
}
function detailBarge(barge) {
  const over = barge.believed.slice(barge.agreed).join(" ");
  return [barge.at, "Barge-in", over
    ? `<p>The caller had heard “… ${esc(barge.heard.slice(-8).join(" "))}”. The model is told that it also said <span class="over">${esc(over)}</span>.</p>`
    : `<p>The caller had heard “… ${esc(barge.heard.slice(-8).join(" "))}”, and that is what the model is told.</p>`];
}
function detailRequest(r) {
  const parts = Object.entries(r.parts).filter(([, n]) => n).map(([p, n]) => `${p} ${n}`).join(" · ");
  const did = r.calls.length ? `calls ${esc(r.calls.join(", "))}` : r.answered ? `answers “${marked(r.answered)}”` : "is interrupted before its first word";
  return [r.at, `${r.tokens.toLocaleString("en")} tokens to the model`, `<p class="parts">${parts}</p><p>The model ${did}</p>` +
    (r.recalled.length ? `<p class="parts">From memory: ${r.recalled.map(marked).join(" · ")}</p>` : "")];
}

/* The timeline. */
const scroll = $("scroll"), strip = $("strip"), panel = $("detail");
let zoom = 0, marks = [], current = null, x0 = (t) => t;
const duration = D.duration + 2;
const fitZoom = () => Math.max((scroll.clientWidth - 40) / duration, 6.5);
const allLanes = (pass) => ["caller", "received", "turn", "bot", ...(pass.states.length ? ["state"] : []), ...(pass.directives.length ? ["directive"] : []), "tokens"];

function draw() {
  const z = zoom, width = Math.ceil(duration * z) + 2;
  strip.style.width = `${width}px`;
  strip.textContent = ""; marks = []; current = null;
  const names = document.createElement("div");
  names.className = "names"; names.setAttribute("aria-hidden", "true");
  strip.appendChild(names);
  const svg = el(strip, "svg", { width, height: 10, role: "group", "aria-label": "Lanes" });
  hatch(svg);
  x0 = (t) => t * z;
  const grid = el(svg, "g");
  let y = 24;
  D.passes.forEach((pass, row) => {
    const title = document.createElement("span");
    title.className = `pass ${pass.key === "stock" ? "" : "ours"}`; title.textContent = pass.name; title.style.top = `${y}px`;
    names.appendChild(title);
    const { height, names: lanes } = drawPass(svg, pass, {
      y0: y + 26, x: x0, z, lanes: allLanes(pass),
      onMark: (g, at, lane, detail) => { marks.push({ g, at, row, lane, detail }); },
    });
    for (const [lane, top] of lanes) {
      const span = document.createElement("span");
      span.textContent = TITLES[lane]; span.style.top = `${top}px`;
      names.appendChild(span);
    }
    for (const call of pass.calls) for (const [t, label] of [[call.at, "calls back"], [call.end, "hangs up"]]) {
      const roomy = call.n === 1 || (call.end - call.at) * z > 125;
      if (call.n === 1 && label === "calls back") continue;
      el(grid, "line", { x1: x0(t), x2: x0(t), y1: y + 8, y2: y + 26 + height, class: "callline" });
      if (roomy || label === "calls back") el(grid, "text", { x: label === "hangs up" ? x0(t) - 3 : x0(t) + 3, y: y + 18, class: "tick", "text-anchor": label === "hangs up" ? "end" : "start" }, label);
    }
    y += 26 + height + 20;
  });
  svg.setAttribute("height", y);
  const step = z > 40 ? 1 : z > 18 ? 5 : 10;
  for (let t = 0; t <= duration; t += step) {
    el(grid, "line", { x1: x0(t), x2: x0(t), y1: 18, y2: y, class: "grid" });
    if (t % (step === 1 ? 2 : step) === 0 && x0(t) + 36 < width) el(grid, "text", { x: x0(t) + 3, y: 12, class: "tick" }, `${t} s`);
  }
  const boxes = marks.map((m) => m.g.getBBox());
  marks.forEach((m, i) => {
    m.g.firstChild.setAttribute("width", boxes[i].width + 4); // its words can be pointed at, too
    m.g.addEventListener("pointerenter", () => show(m));
    m.g.addEventListener("click", () => { show(m); m.g.focus({ preventScroll: true }); });
    m.g.addEventListener("focus", () => show(m));
    if (i === 0) m.g.setAttribute("tabindex", "0");
  });
}
function show(m) {
  if (current) { current.g.classList.remove("on"); current.g.setAttribute("tabindex", "-1"); }
  current = m; m.g.classList.add("on"); m.g.setAttribute("tabindex", "0");
  const [at, title, html] = m.detail();
  panel.innerHTML = `<span class="when">${esc(D.passes[m.row].name)} · ${clock(at)}</span><p><b>${esc(title)}</b></p>${html}`;
}
function setZoom(z, centre) {
  const middle = centre ?? (scroll.scrollLeft + scroll.clientWidth / 2) / (zoom || 1);
  zoom = Math.min(Math.max(z, Math.min(fitZoom(), 6.5)), MAX_ZOOM);
  draw();
  scroll.scrollLeft = middle * zoom - scroll.clientWidth / 2;
}
const showSpan = (from, to) => setZoom((scroll.clientWidth - 24) / (to - from), (from + to) / 2);
strip.addEventListener("keydown", (event) => {
  const m = current || marks[0];
  if (!m) return;
  let next = null;
  const lane = marks.filter((o) => o.row === m.row && o.lane === m.lane).sort((a, b) => a.at - b.at);
  const order = [...new Set(marks.map((o) => `${o.row}.${o.lane}`))];
  const moved = (d) => {
    const key = order[order.indexOf(`${m.row}.${m.lane}`) + d];
    const near = marks.filter((o) => `${o.row}.${o.lane}` === key);
    return near.sort((a, b) => Math.abs(a.at - m.at) - Math.abs(b.at - m.at))[0];
  };
  if (event.key === "ArrowRight") next = lane[lane.indexOf(m) + 1];
  else if (event.key === "ArrowLeft") next = lane[lane.indexOf(m) - 1];
  else if (event.key === "ArrowDown") next = moved(1);
  else if (event.key === "ArrowUp") next = moved(-1);
  else if (event.key === "Home") next = lane[0];
  else if (event.key === "End") next = lane[lane.length - 1];
  else if (event.key === "+" || event.key === "=") { keepFocus(() => setZoom(zoom * 1.6, m.at)); event.preventDefault(); return; }
  else if (event.key === "-") { keepFocus(() => setZoom(zoom / 1.6, m.at)); event.preventDefault(); return; }
  else if (event.key === "Enter" || event.key === " ") { show(m); panel.querySelector("button")?.click(); event.preventDefault(); return; }
  else return;
  event.preventDefault();
  if (!next) return;
  next.g.focus({ preventScroll: true });
  const left = x0(next.at);
  if (left < scroll.scrollLeft + 30 || left > scroll.scrollLeft + scroll.clientWidth - 60) scroll.scrollLeft = left - 80;
});
function keepFocus(change) {
  const { row, lane, at } = current || {};
  change();
  const again = marks.find((o) => o.row === row && o.lane === lane && o.at === at);
  if (again) again.g.focus({ preventScroll: true });
}
$("in").addEventListener("click", () => setZoom(zoom * 1.6));
$("out").addEventListener("click", () => setZoom(zoom / 1.6));
$("fit").addEventListener("click", () => setZoom(fitZoom(), duration / 2));
for (const jump of D.jumps) {
  const button = document.createElement("button");
  button.type = "button"; button.textContent = jump.label;
  button.addEventListener("click", () => showSpan(jump.from, jump.to));
  $("jumps").appendChild(button);
}

/* Listening: the caller's voice as the bot received it, the bot's words as captions. */
let audio = null, playing = null;
async function decode(id) {
  audio ||= new AudioContext();
  const bytes = Uint8Array.from(atob(D.audio[id]), (c) => c.charCodeAt(0));
  return audio.decodeAudioData(bytes.buffer);
}
async function playOne(id) {
  stop();
  const source = new AudioBufferSourceNode((audio ||= new AudioContext()), { buffer: await decode(id) });
  source.connect(audio.destination); source.start();
  playing = { stop: () => source.stop() };
}
async function playPass(pass, button) {
  const again = playing && playing.button === button;
  stop();
  if (again) return;
  const buffers = await Promise.all(pass.utterances.map((u) => (D.audio[u.id] ? decode(u.id) : null)));
  await audio.resume();
  const begin = audio.currentTime + 0.1, sources = [];
  pass.utterances.forEach((u, i) => {
    if (!buffers[i]) return;
    const source = new AudioBufferSourceNode(audio, { buffer: buffers[i] }), gain = audio.createGain();
    for (const [a, b] of pass.gaps) if (a < u.end && b > u.at) { gain.gain.setValueAtTime(0, begin + a); gain.gain.setValueAtTime(1, begin + b); }
    source.connect(gain).connect(audio.destination); source.start(begin + u.at);
    sources.push(source);
  });
  const head = el(strip.querySelector("svg"), "line", { y1: 0, y2: strip.clientHeight, class: "head" });
  const caption = $("caption");
  caption.hidden = false; button.setAttribute("aria-pressed", "true"); button.textContent = "■ Stop";
  playing = { button, stop() { sources.forEach((s) => { try { s.stop(); } catch { /* not started yet */ } }); cancelAnimationFrame(playing.frame); head.remove(); caption.hidden = true; button.setAttribute("aria-pressed", "false"); button.textContent = button.dataset.label; } };
  const step = () => {
    const t = audio.currentTime - begin;
    if (t > pass.duration_secs) { stop(); return; }
    if (!head.isConnected) strip.querySelector("svg").appendChild(head);
    head.setAttribute("x1", x0(t)); head.setAttribute("x2", x0(t));
    const left = x0(t);
    if (left < scroll.scrollLeft || left > scroll.scrollLeft + scroll.clientWidth * 0.8) scroll.scrollLeft = left - scroll.clientWidth * 0.2;
    const line = (who, list) => { const now = list.find((o) => t >= o.at - 0.1 && t <= o.end + 0.4); return now ? `<div>${who}: ${now.words.map((w) => (t >= w[1] ? `<span class="now">${esc(w[0])}</span>` : esc(w[0]))).join(" ")}</div>` : ""; };
    caption.innerHTML = line("Caller", pass.utterances) + line("Bot", pass.bot_turns);
    playing.frame = requestAnimationFrame(step);
  };
  playing.frame = requestAnimationFrame(step);
}
function stop() { if (playing) { const was = playing; playing.stop(); if (playing === was) playing = null; } }
panel.addEventListener("click", (event) => { const id = event.target.dataset?.play; if (id) playOne(id); });
if (Object.keys(D.audio).length) for (const pass of D.passes) {
  const button = document.createElement("button");
  button.type = "button"; button.dataset.label = `▶ ${pass.key === "stock" ? "Stock" : "Plugin"}`; button.textContent = button.dataset.label;
  button.setAttribute("aria-pressed", "false");
  button.setAttribute("aria-label", `Play: ${pass.name}, the caller’s voice as the bot received it, the bot as captions`);
  button.addEventListener("click", () => playPass(pass, button));
  $("jumps").appendChild(button);
}

/* The figures in the story. */
const figures = [];
function figure(id, draw) {
  const host = $(id);
  if (host) figures.push(() => { host.textContent = ""; if (host.clientWidth > 200) draw(host, host.clientWidth); });
}
for (const pass of D.passes) {
  figure(`loss-${pass.key}`, (host, width) => {
    const u = pass.utterances.find((o) => o.lost.length);
    if (!u) return;
    const from = u.at - 0.3, to = u.end + 3.4, z = width / (to - from);
    const svg = el(host, "svg", { width, height: 10, role: "img", "aria-label": `${pass.name}: the sentence that lost packets, what arrived, and whose turn it was` });
    hatch(svg);
    const lanes = ["caller", "received", "turn", "bot"];
    const quiet = { ...pass, utterances: pass.utterances.filter((o) => o.id === u.id) };
    const { height, names } = drawPass(svg, quiet, { y0: 0, x: (t) => (t - from) * z, z: Math.min(z, WORD_ZOOM - 1), lanes, from, to });
    for (const [lane, top] of names) el(svg, "text", { x: 0, y: top + 11, class: "tick" }, TITLES[lane]);
    svg.setAttribute("height", height);
  });
}
figure("pace", (host, width) => {
  const narrow = width < 620, columns = narrow ? 1 : 2, w = width / columns, h = 250;
  const svg = el(host, "svg", { width, height: h * (narrow ? 2 : 1), role: "img", "aria-label": "The bot’s pace beside the caller’s, turn by turn, in both passes" });
  D.passes.forEach((pass, i) => {
    const left = (narrow ? 0 : i * w) + 34, top = narrow ? i * h : 0, right = left + w - 34 - 86;
    const spoken = pass.bot_turns.filter((b) => b.wpm);
    const y = (wpm) => top + h - 30 - ((wpm - 90) / (270 - 90)) * (h - 70);
    el(svg, "text", { x: left - 34, y: top + 13, class: pass.key === "stock" ? "say soft" : "say teal", style: "font-weight:600" }, pass.name);
    for (const wpm of [120, 160, 200, 240]) { el(svg, "line", { x1: left, x2: right, y1: y(wpm), y2: y(wpm), class: "grid" }); el(svg, "text", { x: left - 6, y: y(wpm) + 4, class: "tick", "text-anchor": "end" }, wpm); }
    const x = (n) => left + 14 + (n / Math.max(spoken.length - 1, 1)) * (right - left - 28);
    let last = null;
    spoken.forEach((b, n) => {
      const u = pass.utterances.filter((o) => o.at < b.at).pop();
      if (!u) return;
      el(svg, "line", { x1: x(n), x2: x(n), y1: y(u.wpm), y2: y(b.wpm), style: `stroke:var(--${pass.key === "stock" ? "alarm" : "ours"});stroke-width:2;opacity:.55` });
      el(svg, "circle", { cx: x(n), cy: y(u.wpm), r: 4.5, style: "fill:var(--paper);stroke:var(--ink);stroke-width:1.6" });
      el(svg, "circle", { cx: x(n), cy: y(b.wpm), r: 5, style: `fill:var(--${pass.key === "stock" ? "quiet" : "ours"})` });
      last = [u.wpm, b.wpm];
    });
    if (last) {
      const [a, b] = last.map(y), apart = Math.abs(a - b) < 14 ? (a <= b ? 7 : -7) : 0;
      el(svg, "text", { x: right + 2, y: a + 4 - apart, class: "tick" }, "○ caller");
      el(svg, "text", { x: right + 2, y: b + 4 + apart, class: pass.key === "stock" ? "tick" : "tick teal" }, "● bot");
    }
    el(svg, "text", { x: left, y: top + h - 8, class: "tick" }, "the bot’s turns, in order →");
  });
});
figure("tokens", (host, width) => {
  const h = 240, left = 44, right = width - 118;
  const svg = el(host, "svg", { width, height: h, role: "img", "aria-label": "Tokens sent to the model with each request, in both passes" });
  const y = (n) => h - 26 - (n / (D.max_tokens * 1.05)) * (h - 46), x = (t) => left + (t / D.duration) * (right - left);
  for (let n = 0; n <= D.max_tokens; n += D.max_tokens > 1400 ? 500 : D.max_tokens > 700 ? 250 : 100) { el(svg, "line", { x1: left, x2: right, y1: y(n), y2: y(n), class: "grid" }); el(svg, "text", { x: left - 6, y: y(n) + 4, class: "tick", "text-anchor": "end" }, n.toLocaleString("en")); }
  const [a, b] = D.drift;
  if (b > a) { el(svg, "rect", { x: x(a), y: 8, width: x(b) - x(a), height: h - 34, style: "fill:var(--raised)" }); el(svg, "text", { x: x(a) + 5, y: 21, class: "tick" }, fit("the topic drifts", x(b) - x(a) - 8, 11)); }
  const ends = [];
  for (const pass of D.passes) {
    const call = pass.calls[0] ? pass.calls[0].end : 1e9, first = pass.requests.filter((r) => r.at <= call);
    const colour = pass.key === "stock" ? "var(--quiet)" : "var(--ours)";
    if (!first.length) continue;
    el(svg, "path", { d: "M" + first.map((r) => `${x(r.at).toFixed(1)} ${y(r.tokens).toFixed(1)}`).join("L"), style: `fill:none;stroke:${colour};stroke-width:2` });
    for (const r of pass.requests) el(svg, "circle", { cx: x(r.at), cy: y(r.tokens), r: 3.4, style: `fill:${colour}` });
    const again = pass.requests.filter((r) => r.at > call).pop();
    if (again) el(svg, "text", { x: x(again.at) + 7, y: y(again.tokens) + 4, class: "tick" }, fit("second call", right + 112 - x(again.at), 11));
    ends.push([y(first[first.length - 1].tokens), x(first[first.length - 1].at), pass]);
  }
  for (const [at, px, pass] of ends) el(svg, "text", { x: Math.max(px + 8, right + 6), y: at + 4, class: pass.key === "stock" ? "tick" : "tick teal" }, pass.key === "stock" ? "stock" : "with the plugin");
  el(svg, "text", { x: left, y: h - 6, class: "tick" }, "time in the call →");
});

let lastWidth = 0;
function layout() {
  if (scroll.clientWidth === lastWidth) return;
  const fitted = !zoom || Math.abs(zoom - Math.max((lastWidth - 40) / duration, 6.5)) < 0.01;
  lastWidth = scroll.clientWidth;
  if (fitted) setZoom(fitZoom(), 0);
  figures.forEach((paint) => paint());
}
new ResizeObserver(layout).observe(scroll);
layout();
const first = marks.find((m) => m.lane === "received") || marks[0];
if (first) { show(first); }
})();
