"""LORE-KV from its formulas, number by number in float64, over the naive reader: what tests compare lore.py with."""

import copy
import math

import torch
from naive import Reader, head_slices, logits_of, rms_norm, turn

NORMS = {"l2": lambda x: math.sqrt(float(x @ x)), "l1": lambda x: float(x.abs().sum())}


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


class NaiveLore:
    """The prompt read once, every trajectory behind a copy of it; `score` does Eqs. 5-7, `weigh` Eqs. 2-4 and 10."""

    def __init__(self, weights, cfg, ids, trajectories, window, sinks):
        self.weights, self.cfg, self.n, self.window = weights, cfg, len(ids), window
        self.free = range(sinks, len(ids) - window)
        self.prompt, self.branches, self.logp = Reader(weights, cfg), [], []
        for token in ids:
            x = self.prompt.feed(token)
        for trajectory in trajectories:
            reader, outs = copy.deepcopy(self.prompt), [x]
            for token in trajectory:
                outs.append(reader.feed(token))
            self.branches.append(reader)
            self.logp.append([logits_of(weights, out).log_softmax(dim=-1) for out in outs[:-1]])
        self.ids = trajectories

    def chunks(self, size):
        return [self.free[i : i + size] for i in range(0, len(self.free), size)]

    def moved(self, reader, layer, i, head, rows):
        """What the residual stream loses of token i's query head when `rows` are gone: [e]."""
        d, kv_head = self.cfg.d_head, head // self.cfg.n_group
        a = torch.tensor(reader.given[layer][i][head], dtype=torch.float64)
        v = torch.stack([v[kv_head] for _, _, v in reader.rows[layer][: len(a)]])
        o, rows = a @ v, list(rows)
        after = (o - a[rows] @ v[rows]) / (1 - a[rows].sum())
        return self.weights.layers[layer].w_o[:, head * d : (head + 1) * d].double() @ (after - o)

    def effect(self, reader, layer, queries, kv_head, rows, norm, group):
        """E of one chunk: the mean over queries, and a group's heads put together."""
        g = self.cfg.n_group
        heads = range(kv_head * g, kv_head * g + g)
        moved = {(i, head): self.moved(reader, layer, i, head, rows) for i in queries for head in heads}
        if group == "sum":
            return mean(NORMS[norm](sum(moved[i, head] for head in heads)) for i in queries)
        per_head = [mean(NORMS[norm](moved[i, head]) for i in queries) for head in heads]
        return max(per_head) if group == "max" else mean(per_head)

    def effects(self, reader, layer, queries, kv_head, size, norm, group, chunk_of):
        def of(rows):
            return self.effect(reader, layer, queries, kv_head, rows, norm, group)

        return [of(rows) if chunk_of == "joint" else mean(of([s]) for s in rows) for rows in self.chunks(size)]

    def score(
        self,
        layer,
        kv_head,
        w,
        chunk=4,
        lambda_L=1.0,
        psi="sum",
        norm="l2",
        group="mean",
        chunk_of="joint",
        alpha=0.0,
    ):
        """S of every chunk of one layer and kv head; `w` are the trajectories' weights."""
        how = (kv_head, chunk, norm, group, chunk_of)
        window = range(self.n - self.window, self.n)
        S = scaled(self.effects(self.prompt, layer, window, *how), psi)
        if not lambda_L:
            return S
        E = []
        for reader, ids in zip(self.branches, self.ids):
            E.append(scaled(self.effects(reader, layer, range(self.n, self.n + len(ids)), *how), psi))
        return [s + lambda_L * mixed([e[c] for e in E], w, alpha) for c, s in enumerate(S)]

    def weigh(self, beta=1.0, gamma=1.3, lambda_D=0.0, omega="reliability"):
        """c_bar, H_bar, D, D_hat and the weights of the trajectories."""
        H = [[-float((p.exp() * p).sum()) for p in logp] for logp in self.logp]
        c = [mean(float(p[i]) + h for p, i, h in zip(logp, ids, hs)) for logp, ids, hs in zip(self.logp, self.ids, H)]
        H, m = [mean(h) for h in H], range(len(self.ids))
        D = [1 - mean(self.cosine(i, j) for j in m if j != i) if len(m) > 1 else 0.0 for i in m]
        std = math.sqrt(mean((x - mean(D)) ** 2 for x in D))
        D_hat = [(x - mean(D)) / std if std > 1e-6 else 0.0 for x in D]
        R = [math.exp(beta * c[i] - gamma * H[i] - lambda_D * D_hat[i]) for i in m]
        w = [r / sum(R) for r in R] if omega == "reliability" else [1 / len(R)] * len(R)
        return {"c_bar": c, "H_bar": H, "D": D, "D_hat": D_hat, "weights": w}

    def cosine(self, one, other):
        pairs = []
        for layer in range(self.cfg.n_layer):
            for step in range(min(len(self.ids[one]), len(self.ids[other]))):
                a, b = (self.queries(self.branches[m], layer, self.n + step) for m in (one, other))
                pairs += [float(x @ y) / math.sqrt(float(x @ x) * float(y @ y)) for x, y in zip(a, b)]
        return mean(pairs)

    def queries(self, reader, layer, i):
        w = self.weights.layers[layer]
        q, _, _ = head_slices(self.cfg, w, rms_norm(reader.inputs[layer][i], w.norm_attn, self.cfg.norm_eps))
        return [turn(x, i, self.cfg.rope.theta) for x in q]

    def keep(self, S, size, budget):
        """Positions kept: protected ones, then chunks from the best down, of the last that fits its newest rows."""
        kept = [i for i in range(self.n) if i not in self.free]
        for _, rows in sorted(zip(S, self.chunks(size)), key=lambda x: (x[0], x[1][0]), reverse=True):
            kept += list(rows)[::-1][: max(0, budget - len(kept))]
        return sorted(kept)


def scaled(E, psi):
    if psi == "identity":
        return E
    if psi == "rank":
        return [sum(other < e for other in E) / len(E) for e in E]
    if psi == "maxpool":
        E = [max(E[max(0, i - 3) : i + 4]) for i in range(len(E))]
    return [e / sum(E) for e in E]


def mixed(E, w, alpha):
    """Weighted mean over trajectories of one chunk, with int(alpha m) of them trimmed at either end."""
    n = int(alpha * len(E))
    kept = sorted(zip(E, w))[n : len(E) - n]
    return sum(e * x for e, x in kept) / sum(x for _, x in kept)


def diverse(S, k, v, tau, lambda_k, lambda_v):
    """The order in which a greedy choice takes the chunks of one head: each time the largest discounted S."""

    def cosine(a, b):
        return float(torch.dot(a, b) / (a.norm() * b.norm()))

    left, order = list(range(len(S))), []
    while left:
        near = {
            i: lambda_k * max([0.0, *(cosine(k[i], k[j]) for j in order)])
            + lambda_v * max([0.0, *(cosine(v[i], v[j]) for j in order)])
            for i in left
        }
        best = max(left, key=lambda i: (S[i] * (1 - tau * max(0.0, near[i])), i))
        left.remove(best)
        order.append(best)
    return order
