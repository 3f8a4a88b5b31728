// The tokens, the run's facts, and a step from one refresh to another. Data reaches the page through textContent only.

const STATES = { later: "not seen yet", gone: "evicted before", kept: "kept", lost: "evicted now" };
const LEVELS = 10; // steps of the colour ramp
const spans = []; // one a token, made once; a step only changes class names

function classOf(p) {
  if (p >= now.n_seen) return "later";
  if (!bit(now.held, p)) return "gone";
  const level = Math.floor((LEVELS * now.below.get(now.scores[p])) / now.n_finite);
  return (bit(now.kept, p) ? "kept " : "lost ") + (Number.isFinite(now.scores[p]) ? "l" + level : "always");
}

function about(p) { // one line on a token
  const words = ["position " + p, "id " + (run.ids[p] ?? "none"), JSON.stringify(run.pieces[p])];
  if (!now) return words.join(" · ");
  const score = now.scores[p];
  if (Number.isFinite(score)) {
    words.push("score " + digits(score));
    words.push(`${now.below.get(score)} of ${now.n_finite - 1} others score lower`);
  } else if (!Number.isNaN(score)) words.push("score infinite");
  words.push(STATES[classOf(p).split(" ")[0]]);
  const lost = now.lost[p];
  if (p >= run.refreshes[n_refresh - 1].n_seen) words.push("came after the last refresh");
  else words.push(lost < 0 ? "never lost" : `lost at refresh ${lost + 1} (n_seen ${run.refreshes[lost].n_seen})`);
  return words.join(" · ");
}

function select(p) {
  if (at.token !== null) spans[at.token].removeAttribute("data-here");
  at.token = Math.max(0, Math.min(n - 1, p));
  spans[at.token].setAttribute("data-here", "");
  $("about").textContent = about(at.token);
  drawMaps();
}

function moveTo(p) {
  select(p);
  spans[at.token].scrollIntoView({ block: "nearest" });
}

function makeTokens() {
  run.pieces.forEach((piece, p) => {
    const span = document.createElement("span");
    span.textContent = piece.replaceAll("\n", "↵\n") || "·";
    spans.push(span);
    $(p < run.n_prompt ? "prompt" : "output").append(span);
  });
  $("prompt-title").textContent = `Prompt: positions 0 to ${run.n_prompt - 1}`;
  $("output-title").textContent = n > run.n_prompt ? `Answer: from position ${run.n_prompt}` : "Answer: no tokens";
  const index = new Map(spans.map((span, p) => [span, p]));
  $("tokens").addEventListener("pointerover", (e) => {
    if (index.has(e.target)) $("about").textContent = e.target.title = about(index.get(e.target));
  });
  $("tokens").addEventListener("click", (e) => index.has(e.target) && select(index.get(e.target)));
}

function show() { // after at.refresh, at.layer or at.head changed
  if (!n_refresh) return;
  now = unpack();
  spans.forEach((span, p) => {
    const name = classOf(p);
    if (span.className !== name) span.className = name;
  });
  const held = count(now.held), kept = count(now.kept);
  $("slider").value = at.refresh + 1;
  $("counts").textContent = `refresh ${at.refresh + 1} of ${n_refresh} · n_seen ${now.n_seen} · ` +
    `held before ${held} · kept after ${kept} · evicted ${held - kept}`;
  if (at.token !== null) $("about").textContent = about(at.token);
  drawMaps();
}

function go(change) {
  Object.assign(at, change);
  at.refresh = Math.max(0, Math.min(n_refresh - 1, at.refresh));
  [$("layer").value, $("head").value] = [at.layer, at.head];
  show();
}

function element(parent, tag, text, className = "") {
  const e = document.createElement(tag);
  e.textContent = text;
  e.className = className;
  parent.append(e);
  return e;
}

function makeFacts() {
  const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const options = Object.entries(run.options ?? {}).map(([name, value]) => name + "=" + plain(value)).join(" ");
  const seconds = Object.entries(run.seconds).map(([k, v]) => `${k} ${Number(v).toFixed(2)}`).join(" · ");
  const facts = {
    model: run.model, method: run.method, options: options || "none", budget: run.budget ?? "none",
    every: run.every ?? "no interval", dtype: run.dtype, n_seen: run.n_seen, kept_rows: run.kept_rows,
    peak_rows: run.peak_rows, bytes_held: `${run.bytes_held} (${(run.bytes_held / 2 ** 20).toFixed(1)} MiB)`,
    stop: run.stop, seconds,
  };
  for (const [name, value] of Object.entries(facts)) {
    const box = element($("facts"), "div", "", ["options", "seconds"].includes(name) ? "wide" : "");
    element(box, "dt", name);
    element(box, "dd", value);
  }
  document.title = $("title").textContent = `${run.method}, budget ${run.budget ?? "none"}`;
  $("answer").textContent = run.text || "(empty)";
}

function makeLookahead() {
  const look = run.lookahead;
  if (!look?.trajectories) return;
  $("lookahead").hidden = false;
  const columns = ["weights", "c_bar", "H_bar", "D", "D_hat"].filter((name) => look[name]);
  const head = element($("trajectories"), "tr", "");
  for (const name of ["", ...columns, "trajectory"]) element(head, "th", name);
  look.trajectories.forEach((tokens, m) => {
    const line = element($("trajectories"), "tr", "");
    element(line, "th", m);
    for (const name of columns) element(line, "td", digits(look[name][m]));
    element(line, "td", Array.isArray(tokens) ? tokens.join(" ") : tokens);
  });
}

function listen() {
  $("slider").max = n_refresh;
  $("slider").addEventListener("input", (e) => go({ refresh: e.target.value - 1 }));
  $("layer").addEventListener("change", (e) => go({ layer: Number(e.target.value) }));
  $("head").addEventListener("change", (e) => go({ head: Number(e.target.value) }));
  document.addEventListener("keydown", (e) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[e.key];
    const sideways = e.key === "ArrowLeft" || e.key === "ArrowRight";
    if (!step || e.ctrlKey || e.metaKey || e.altKey || ["INPUT", "SELECT"].includes(e.target.tagName)) return;
    if (sideways && n_refresh) go({ refresh: at.refresh + step });
    else if (!sideways && $("tokens").contains(e.target)) moveTo((at.token ?? -1) + step);
    else return;
    e.preventDefault();
  });
  listenMaps();
}

function makeStepper() {
  if (!n_refresh) {
    $("none").hidden = false;
    $("none").textContent = "No refresh happened in this run: every token stayed in the cache.";
    return;
  }
  document.body.className = "stepped";
  for (let level = 0; level < LEVELS; level++) element($("ramp"), "b", "", "kept l" + level);
  const nested = run.refreshes.find((refresh) => !refresh.shared);
  if (!nested) return;
  $("heads").hidden = false;
  nested.heads.forEach((_, l) => element($("layer"), "option", l));
  nested.heads[0].forEach((_, h) => element($("head"), "option", h));
}

makeFacts();
makeLookahead();
makeTokens();
makeStepper();
listen();
show();
