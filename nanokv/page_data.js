"use strict";
// The run in the page's JSON block, what is selected, and the unpacking of one refresh (the encoding: page.py).

const $ = (id) => document.getElementById(id);
const run = JSON.parse($("run").textContent);
const n = run.pieces.length, n_refresh = run.refreshes.length;
const at = { refresh: n_refresh - 1, layer: 0, head: 0, token: null }; // what is selected
let now = null; // the selected refresh and head, unpacked

const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const bit = (mask, p) => (mask[p >> 3] >> (p & 7)) & 1;
const cell = (refresh, layer, head) => refresh.shared ? refresh.heads[0][0] : refresh.heads[layer][head];
const masks = new Map(); // of a packed head: { held, kept }, unpacked once

function masksOf(packed) {
  if (!masks.has(packed)) masks.set(packed, { held: bytes(packed.held), kept: bytes(packed.kept) });
  return masks.get(packed);
}

function scoresOf(packed, held) { // by position, NaN where nothing is held
  const planes = bytes(packed.scores), m = planes.length / 3;
  const word = new DataView(new ArrayBuffer(4)), scores = new Float32Array(n).fill(NaN);
  for (let p = 0, i = 0; p < n; p++) {
    if (!bit(held, p)) continue;
    word.setUint32(0, (planes[2 * m + i] << 24) | (planes[m + i] << 16) | (planes[i] << 8));
    scores[p] = word.getFloat32(0);
    i++;
  }
  return scores;
}

function count(mask) {
  let total = 0;
  for (let p = 0; p < n; p++) total += bit(mask, p);
  return total;
}

function lostAt() { // by position: the first refresh after which it is not held in this layer and head, or -1
  const lost = new Int32Array(n).fill(-1);
  run.refreshes.forEach((refresh, r) => {
    const { kept } = masksOf(cell(refresh, at.layer, at.head));
    for (let p = 0; p < refresh.n_seen; p++) if (lost[p] < 0 && !bit(kept, p)) lost[p] = r;
  });
  return lost;
}

function unpack() {
  const refresh = run.refreshes[at.refresh], packed = cell(refresh, at.layer, at.head);
  const { held, kept } = masksOf(packed);
  const scores = scoresOf(packed, held), sorted = scores.filter(Number.isFinite).sort();
  const below = new Map(); // of a score: how many are lower, so that equal scores get one colour
  for (let i = sorted.length - 1; i >= 0; i--) below.set(sorted[i], i);
  return { n_seen: refresh.n_seen, held, kept, scores, below, n_finite: sorted.length, lost: lostAt() };
}

const digits = (value) => (Number.isFinite(value) ? Number(value.toPrecision(4)) : "none");
