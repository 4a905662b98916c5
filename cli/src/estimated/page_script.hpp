#pragma once

// The script and the style of found_page.cpp: plain JavaScript, which asks nobody.

#include <string_view>

namespace trimtab::cli {

inline constexpr std::string_view kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --ink: #1b1b1f; --dim: #666; --line: #ccc; --back: #fff; --card: #f5f5f7; --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8ea; --dim: #9a9aa2; --line: #444; --back: #17171a; --card: #232327; --bad: #ff8a80; }
}
body {
  font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--back);
  max-width: 62rem; margin: 1.5rem auto; padding: 0 1rem;
}
h1 { font-size: 1.3rem; margin: 0 0 .3rem; } h2 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
.dim { color: var(--dim); } .bad { color: var(--bad); font-weight: 600; }
.knobs { display: flex; flex-wrap: wrap; gap: .6rem; padding: .8rem; background: var(--card); border-radius: .5rem; }
.knobs label { display: flex; flex-direction: column; font-size: .85rem; color: var(--dim); }
select, button {
  font: inherit; color: var(--ink); background: var(--back);
  border: 1px solid var(--line); border-radius: .3rem; padding: .2rem .4rem;
}
.figures { display: flex; flex-wrap: wrap; gap: 1.6rem; margin: .8rem 0; }
.figures b { display: block; font-size: 1.5rem; font-weight: 600; }
.bar {
  display: flex; height: 1.7rem; border-radius: .3rem; overflow: hidden; background: var(--card); position: relative;
}
.bar i { display: block; height: 100%; }
.limit { position: absolute; top: 0; bottom: 0; width: 2px; background: var(--bad); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .85rem; margin-top: .3rem; }
.legend span::before {
  content: ""; display: inline-block; width: .7rem; height: .7rem; border-radius: .15rem;
  margin-right: .35rem; background: var(--c);
}
table { border-collapse: collapse; font-size: .9rem; }
td, th { padding: .15rem .6rem; text-align: right; }
th { font-weight: 500; color: var(--dim); }
td:last-child, th:last-child { text-align: left; }
tr.pick { cursor: pointer; }
tr.pick:hover { background: var(--card); }
)css";

inline constexpr std::string_view kPageScript = R"js(
'use strict';
const D = JSON.parse(document.getElementById('data').textContent);
const K = D.knobs.length;
const COLORS = ['#4477aa', '#aa7744', '#888888', '#cc6677', '#ee99aa', '#ddcc77', '#44aa99', '#117733', '#bbbbbb',
  '#882255'];
const at = name => D.columns.indexOf(name);
const el = id => document.getElementById(id);
const text = (p, k) => D.words[k] ? D.words[k][p[k]] : String(p[k]);
const digits = value => value < 1000 ? Number(value.toPrecision(3)) : Math.round(value);
const time = s => s < 0.9995 ? digits(s * 1000) + ' ms' : digits(s) + ' s';
const fits = p => p[at('fits')] >= D.leastChance;
let now = D.plans[0];

// The plan with this knob that differs in the fewest other knobs; of those one that fits, then the fastest.
function nearest(k, value) {
  let best = null, rank = null;
  for (const p of D.plans) {
    if (p[k] !== value) continue;
    let moved = 0;
    for (let i = 0; i < K; ++i) if (i !== k && p[i] !== now[i]) ++moved;
    const r = [moved, fits(p) ? 0 : 1, p[at('step')]];
    const differs = rank ? [0, 1, 2].find(i => r[i] !== rank[i]) : 0;
    if (!best || (differs !== undefined && r[differs] < rank[differs])) { best = p; rank = r; }
  }
  return best;
}

function choose(p) { now = p; show(); }

function knobs() {
  const box = el('knobs');
  box.textContent = '';
  D.knobs.forEach((name, k) => {
    const label = document.createElement('label'), select = document.createElement('select');
    label.append(name, select);
    const values = [...new Set(D.plans.map(p => p[k]))].sort((a, b) => a - b);
    for (const value of values) {
      const option = document.createElement('option');
      const there = D.plans.some(p => p[k] === value && now.every((v, i) => i >= K || i === k || v === p[i]));
      option.value = value;
      option.textContent = (D.words[k] ? D.words[k][value] : value) + (there ? '' : ' *');
      option.selected = value === now[k];
      select.append(option);
    }
    select.disabled = values.length < 2;
    select.onchange = () => {
      const before = now;
      now = nearest(k, Number(select.value));
      const moved = D.knobs.filter((_, i) => i !== k && now[i] !== before[i]);
      show();
      if (moved.length) el('moved').textContent = 'It needs others, too. These moved: ' + moved.join(', ') + '.';
    };
    box.append(label);
  });
}

function bar(id, names, values, whole, limit) {
  const box = el(id), legend = el(id + '-legend');
  box.textContent = legend.textContent = '';
  names.forEach((name, i) => {
    if (values[i] <= whole / 2000) return;
    const part = document.createElement('i'), word = document.createElement('span');
    part.style.width = (100 * values[i] / whole) + '%';
    part.style.background = COLORS[i % COLORS.length];
    part.title = name;
    word.style.setProperty('--c', COLORS[i % COLORS.length]);
    word.textContent = name + ' ' + (id === 'time' ? time(values[i]) : values[i].toFixed(1) + ' GiB');
    box.append(part);
    legend.append(word);
  });
  if (limit) {
    const line = document.createElement('div');
    line.className = 'limit';
    line.style.left = (100 * limit / whole) + '%';
    line.title = 'what a GPU has';
    box.append(line);
  }
}

function show() {
  knobs();
  el('moved').textContent = '';
  const first = D.plans[0], step = now[at('step')], chance = now[at('fits')];
  const bubble = now[at('bubble, waiting for others')];
  const longer = 100 * (step / first[at('step')] - 1);
  const percent = chance > .99 ? 'more than 99 %' : Math.round(100 * chance) + ' %';
  el('step').textContent = time(step);
  el('within').textContent = 'nine of ten between ' + time(now[at('least')]) + ' and ' + time(now[at('most')]);
  el('beside').textContent = now === first ? 'the best that was found'
    : (longer >= 0 ? '+' : '') + longer.toFixed(1) + ' % beside the best';
  el('speed').textContent = Math.round(now[at('tokens')]) + '';
  el('mfu').textContent = (100 * now[at('mfu')]).toFixed(1) + ' %';
  el('bubble').textContent = (100 * bubble / step).toFixed(1) + ' %';
  el('gib').textContent = now[at('process')].toFixed(1) + ' GiB';
  el('chance').textContent = (fits(now) ? '' : 'too large: ') + 'fits with a chance of ' + percent;
  el('chance').className = fits(now) ? 'dim' : 'bad';
  const again = now[at('layers')];
  const recomputed = again ? ', ' + again + ' of ' + D.layers + ' layers recomputed' : '';
  el('plan').textContent = 'dp ' + now[at('dp')] + recomputed;
  const parts = D.parts.map(name => now[at(name)]);
  bar('time', D.parts, parts, Math.max(step, parts.reduce((a, b) => a + b, 0)));
  const held = D.held.map(name => now[at(name)]);
  held.push(Math.max(0, now[at('process')] - held.reduce((a, b) => a + b, 0)));
  const whole = Math.max(now[at('process')], D.capacity) * 1.02;
  bar('memory', D.held.concat('allocator, CUDA and NCCL'), held, whole, D.capacity);
}

function table() {
  const head = el('best').tHead.insertRow(), body = el('best').tBodies[0], seen = new Set();
  for (const name of ['step', 'GiB', 'fits'].concat(D.knobs)) {
    const cell = document.createElement('th');
    cell.textContent = name;
    head.append(cell);
  }
  for (const p of D.plans) {
    const split = [0, 1, 3].map(k => p[k]).join();
    if (!fits(p) || seen.has(split) || seen.size >= 12) continue;
    seen.add(split);
    const row = body.insertRow();
    row.className = 'pick';
    row.onclick = () => choose(p);
    const figures = [time(p[at('step')]), p[at('process')].toFixed(1), Math.round(100 * p[at('fits')]) + ' %'];
    for (const word of figures.concat(D.knobs.map((_, k) => text(p, k)))) row.insertCell().textContent = word;
  }
}
el('reset').onclick = () => choose(D.plans[0]);
table();
show();
)js";

}  // namespace trimtab::cli
