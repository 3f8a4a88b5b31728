"""Files as the runner writes them, made up."""

import json

SETTINGS = {"model": "weights/SmolLM2-135M-Instruct", "dtype": "float32", "device": "cpu"}
FIDELITY = {"kl": 0.25, "top1": 0.5, "nll": 2.0, "n": 8}


def line(task="ruler/vt@1024", sample=0, label="snapkv", budget=64, score=1.0, **more) -> dict:
    """One sample of once-after-prompt `label`; `more` replaces any field."""
    made = {
        **{"task": task, "sample": str(sample), "method": label.split()[0], "label": label, "options": {}},
        **{"budget": budget, "every": None, "ask": "before", "seed": 0, "prompt_sha": "ab", "n_prompt": 900},
        **{"n_cut": 0, "output_ids": [1], "answer": "x", "score": score, "answered": True, "details": {}},
        **{"kept_rows": float(budget or 900), "bytes_held": 2**20, "peak_rows": 900, "stop": "eos"},
        **{"seconds": {"prefill": 1.0, "score": 0.5, "decode": 0.25}, "fidelity": dict(FIDELITY), "error": None},
        **{"versions": {}, **more},
    }
    kind = ("task", "sample", "label", "budget", "every", "ask", "seed")
    return {"key": json.dumps([made[name] for name in kind]), **made}


def failed(**more) -> dict:
    """A sample that raised: nothing was answered or measured."""
    nothing = dict.fromkeys(("kept_rows", "bytes_held", "peak_rows", "seconds", "fidelity", "score"))
    return line(**{**nothing, "answered": False, "error": "UserError: the prompt is empty", **more})


def samples(scores, **more) -> list:
    """Samples 0, 1, ... with these scores."""
    return [line(sample=i, score=score, **more) for i, score in enumerate(scores)]


def full(scores, **more) -> list:
    return samples(scores, label="full", budget=None, fidelity=None, **more)


def write(path, lines, settings=SETTINGS):
    path.parent.mkdir(exist_ok=True, parents=True)
    text = [json.dumps(line, ensure_ascii=False) for line in ({"settings": settings}, *lines)]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path
