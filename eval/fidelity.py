"""How far an evicted cache speaks otherwise than the full one, token by token on the full cache's own greedy answer.

Teacher forcing: the answer of the full cache is fed to both, and their next-token distributions are compared. What is
evicted is the cache as it stands when the answer begins. The answer enters in one causal pass and nothing is refreshed
meanwhile, also for methods on a schedule; so this measures what reading the prompt has lost.
"""

from dataclasses import dataclass

import torch

from eval.answer import Model
from eval.fork import fork
from nanokv.generate import CHUNK, Run
from nanokv.passes import causal_pass, unembed

ROWS = 64  # logits rows at a time: never a whole [t v]


@dataclass
class Said:
    """What a cache says along an answer: `first` [v], the logits of its first token, and `x` [1 t e], the final states
    that give the logits of the others."""

    first: torch.Tensor
    x: torch.Tensor


def follow(model: Model, run: Run, tokens: list) -> Said:
    """Feed `tokens` to a fork of what the run holds; the run itself may go on as if nothing had been."""
    kv = fork(run.kv)
    states = [run.seen.logits.new_zeros(1, 0, model.cfg.d_model, dtype=model.weights.embed.dtype)]
    for start in range(0, len(tokens), CHUNK):
        ids = torch.tensor([tokens[start : start + CHUNK]], device=model.weights.embed.device)
        states.append(causal_pass(model.weights, model.cfg, kv, ids))
    return Said(run.seen.logits, torch.cat(states, dim=1))


def tokens_to_feed(output_ids: list, stop: str) -> list:
    """The answer as far as a token behind it is compared: its end counts as one where the model itself ended it."""
    return output_ids if stop == "eos" else output_ids[:-1]


def fidelity(model: Model, full: Said, evicted: Said, output_ids: list) -> dict:
    """{"kl", "top1", "nll", "n"}: means over the n tokens of the full cache's answer, `output_ids`.

    kl     KL(full || evicted) of the next-token distributions, nats
    top1   share of tokens where both have the same most likely one
    nll    -log p_evicted of the full cache's token, nats; where the model ended the answer, that token is the last
    """
    n = full.x.shape[1] + 1
    kl = same = nll = 0.0
    for p, q, rows in zip(log_probs(model, full), log_probs(model, evicted), torch.arange(n).split(ROWS)):
        best = p.argmax(dim=-1)
        said = torch.tensor(output_ids[rows[0] : rows[-1] + 1], device=best.device)
        target = torch.cat((said, best[len(said) :]))  # the end of text is no part of output_ids
        kl += float((p.exp() * (p - q)).sum())
        same += int((q.argmax(dim=-1) == best).sum())
        nll -= float(q.gather(-1, target[:, None]).sum())
    return {"kl": kl / n, "top1": same / n, "nll": nll / n, "n": n}


def log_probs(model: Model, said: Said):
    """Blocks [ROWS v] of log-probabilities, first token first."""
    first, n = said.first[None], said.x.shape[1] + 1
    for start in range(0, n, ROWS):
        logits = unembed(model.weights, said.x[:, max(0, start - 1) : start + ROWS - 1])[0, :, : model.chat.n_ids]
        yield (logits if start else torch.cat((first, logits))).log_softmax(dim=-1)
