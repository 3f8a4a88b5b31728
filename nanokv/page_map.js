// The two maps: x = original token position; y = refresh number, or layer and kv head at the selected refresh.

const LEFT = 34, TOP = 16; // CSS pixels beside and above a map, for its labels

function drawMap(canvas, rows, chosen) { // rows: [{ n_seen, kept, label }]
  const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name);
  const width = canvas.clientWidth, scale = window.devicePixelRatio || 1;
  const high = Math.max(3, Math.min(14, Math.floor(360 / rows.length))), gap = high > 4 ? 1 : 0;
  const x = (p) => LEFT + ((width - LEFT) * p) / n, y = (row) => TOP + row * high;
  canvas.style.height = y(rows.length) + "px";
  canvas.width = width * scale;
  canvas.height = y(rows.length) * scale;
  const g = canvas.getContext("2d");
  g.scale(scale, scale);
  g.font = "11px system-ui, sans-serif";
  let lowest = -99; // of the labels so far
  rows.forEach(({ n_seen, kept, label }, row) => {
    g.fillStyle = colour("--band");
    g.fillRect(x(0), y(row), x(n_seen) - x(0), high - gap);
    g.fillStyle = colour(row === chosen ? "--strong" : "--ink");
    for (let p = 0; p < n_seen; p++) {
      if (!bit(kept, p)) continue;
      const first = p;
      while (p < n_seen && bit(kept, p)) p++;
      g.fillRect(x(first), y(row), Math.max(0.7, x(p) - x(first)), high - gap);
    }
    if (label === "" || y(row) - lowest < 12) return;
    lowest = y(row);
    g.fillStyle = colour("--quiet");
    g.fillText(label, 0, lowest + high / 2 + 4);
  });
  g.strokeStyle = colour("--text");
  g.strokeRect(x(0) + 0.5, y(chosen) - 0.5, width - LEFT - 1, high);
  if (at.token !== null) g.strokeRect(x(at.token), TOP, Math.max(1, x(1) - x(0)), y(rows.length) - TOP);
  g.fillStyle = colour("--quiet");
  g.fillText("0", x(0), 11);
  g.fillText(n, width - g.measureText(n).width, 11);
  g.setLineDash([3, 3]);
  g.beginPath();
  g.moveTo(x(run.n_prompt), 0);
  g.lineTo(x(run.n_prompt), y(rows.length));
  g.stroke();
  canvas.rowAt = (e) => Math.max(0, Math.min(rows.length - 1, Math.floor((e.offsetY - TOP) / high)));
  canvas.positionAt = (e) => Math.max(0, Math.min(n - 1, Math.floor(((e.offsetX - LEFT) / (width - LEFT)) * n)));
}

function drawMaps() {
  if (!now) return;
  const row = (refresh, layer, head, label) =>
    ({ n_seen: refresh.n_seen, kept: masksOf(cell(refresh, layer, head)).kept, label });
  drawMap($("map"), run.refreshes.map((refresh, r) => row(refresh, at.layer, at.head, String(r + 1))), at.refresh);
  const refresh = run.refreshes[at.refresh];
  $("overview").hidden = refresh.shared;
  if (refresh.shared) return;
  const n_head = refresh.heads[0].length;
  const rows = refresh.heads.flatMap((layer, l) => layer.map((_, h) => row(refresh, l, h, h ? "" : "L" + l)));
  drawMap($("every"), rows, at.layer * n_head + at.head);
}

function listenMaps() {
  $("map").addEventListener("click", (e) => go({ refresh: e.target.rowAt(e) }));
  $("map").addEventListener("pointermove", (e) => ($("about").textContent = about(e.target.positionAt(e))));
  $("every").addEventListener("click", (e) => {
    const n_head = run.refreshes[at.refresh].heads[0].length, row = e.target.rowAt(e);
    go({ layer: Math.floor(row / n_head), head: row % n_head });
  });
  window.addEventListener("resize", drawMaps);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMaps);
}
