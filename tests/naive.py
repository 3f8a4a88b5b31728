"""The model token by token and head by head in float64, from the formulas alone: what tests compare the passes with.

A naive cache is a list per layer of (position, [unrotated key of each kv head], [value of each kv head]).
"""

import math

import torch


def rms_norm(x, weight, eps: float):
    """x / sqrt(mean of squares + eps), times the weight; x [n]."""
    return x / math.sqrt(sum(float(v) ** 2 for v in x) / len(x) + eps) * weight.double()


def turn(x, pos: int, theta: float):
    """x [d] as d/2 complex numbers x[i] + i x[i + d/2], each multiplied by exp(i pos theta^(-2i/d))."""
    half = len(x) // 2
    angle = torch.tensor([pos * theta ** (-2 * i / len(x)) for i in range(half)], dtype=torch.float64)
    turned = torch.complex(x[:half], x[half:]) * torch.exp(1j * angle)
    return torch.cat((turned.real, turned.imag))


def linear(x, weight, bias=None):
    y = weight.double() @ x
    return y if bias is None else y + bias.double()


def head_slices(cfg, w, a):
    """(queries per query head, keys per kv head, values per kv head) of one normed token, before rotation."""
    d = cfg.d_head
    q, k, v = linear(a, w.w_q, w.b_q), linear(a, w.w_k, w.b_k), linear(a, w.w_v, w.b_v)
    q = [q[i * d : (i + 1) * d] for i in range(cfg.n_head)]
    k = [k[i * d : (i + 1) * d] for i in range(cfg.n_kv_head)]
    v = [v[i * d : (i + 1) * d] for i in range(cfg.n_kv_head)]
    if w.norm_q is not None:
        q = [rms_norm(x, w.norm_q, cfg.norm_eps) for x in q]
        k = [rms_norm(x, w.norm_k, cfg.norm_eps) for x in k]
    return q, k, v


def softmax(numbers: list) -> list:
    e = [math.exp(x - max(numbers)) for x in numbers]
    return [x / sum(e) for x in e]


def attention(cfg, w, x, q_pos: int, rows: list):
    """What each query head gives each of `rows` [(rotation position, keys, values)]: [query head][row] weights."""
    q, _, _ = head_slices(cfg, w, rms_norm(x, w.norm_attn, cfg.norm_eps))
    given = []
    for head in range(cfg.n_head):
        kv_head = head // (cfg.n_head // cfg.n_kv_head)
        own = turn(q[head], q_pos, cfg.rope.theta)
        dots = [float(own @ turn(k[kv_head], pos, cfg.rope.theta)) for pos, k, _ in rows]
        given.append(softmax([dot / math.sqrt(cfg.d_head) for dot in dots]) if rows else [])
    return given


def layer_out(cfg, w, x, q_pos: int, rows: list, with_mlp: bool = True):
    """One token through one layer that may look at `rows`; no row at all reads zeros."""
    z = []
    for head, weights_of_rows in enumerate(attention(cfg, w, x, q_pos, rows)):
        kv_head = head // (cfg.n_head // cfg.n_kv_head)
        read = torch.zeros(cfg.d_head, dtype=torch.float64)
        for weight, (_, _, v) in zip(weights_of_rows, rows):
            read = read + weight * v[kv_head]
        z.append(read)
    x = x + linear(torch.cat(z), w.w_o, w.b_o)
    if not with_mlp:
        return x
    m = rms_norm(x, w.norm_mlp, cfg.norm_eps)
    gate, up = linear(m, w.w_gate, w.b_gate), linear(m, w.w_up, w.b_up)
    return x + linear(gate / (1 + torch.exp(-gate)) * up, w.w_down, w.b_down)


def final(weights, cfg, x):
    return rms_norm(x, weights.norm, cfg.norm_eps)


def logits_of(weights, x):
    """x [e], normed -> logits [v]."""
    return weights.unembed.double() @ x


class Reader:
    """Reads tokens causally. `inputs[layer][i]` is what entered that layer at token i; `given[layer][i]` its attention
    [query head][row held]. `cache_positions`: rotate by the place in the cache (StreamingLLM) and not by age."""

    def __init__(self, weights, cfg, cache_positions=False):
        self.weights, self.cfg, self.cache_positions = weights, cfg, cache_positions
        self.rows = [[] for _ in range(cfg.n_layer)]
        self.inputs = [[] for _ in range(cfg.n_layer)]
        self.given = [[] for _ in range(cfg.n_layer)]
        self.n_seen = 0

    def feed(self, token: int):
        """One token; returns its final normed x [e]."""
        x = self.weights.embed[token].double()
        for layer, w in enumerate(self.weights.layers):
            self.inputs[layer].append(x)
            _, k, v = head_slices(self.cfg, w, rms_norm(x, w.norm_attn, self.cfg.norm_eps))
            self.rows[layer].append((self.n_seen, k, v))
            rows = self.rows[layer]
            if self.cache_positions:
                rows = [(i, k, v) for i, (_, k, v) in enumerate(rows)]
            self.given[layer].append(attention(self.cfg, w, x, rows[-1][0], rows))
            x = layer_out(self.cfg, w, x, rows[-1][0], rows)
        self.n_seen += 1
        return final(self.weights, self.cfg, x)

    def keep(self, positions):
        """Drop every row of every layer that is not at one of these positions."""
        self.rows = [[row for row in rows if row[0] in positions] for rows in self.rows]


def look_ahead(reader: Reader, x, pos: int, may_look, layers=None, with_mlp: bool = True):
    """One row of the counter-causal pass: x [e] enters the first of `layers` at position `pos`; returns normed x [e].

    `may_look(q_pos, k_pos) -> bool`.
    """
    for layer in range(reader.cfg.n_layer) if layers is None else layers:
        rows = [row for row in reader.rows[layer] if may_look(pos, row[0])]
        x = layer_out(reader.cfg, reader.weights.layers[layer], x, pos, rows, with_mlp)
    return final(reader.weights, reader.cfg, x)
