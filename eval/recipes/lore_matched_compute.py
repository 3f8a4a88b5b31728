from eval.recipes import LONGBENCH

TITLE = "LongBench by lookahead tokens M x T, against AnDPro on the same continuations"
SOURCE = "arXiv 2610.07643, figure on the matched lookahead-token budget, B = 128"
READING = """The page names M x T, not the pairs: M = 1, 2, 4, 8 at T = 8, and T = 4, 16 at M = 4. AnDPro gets the
same continuations as further queries (`andpro_lookahead`). One seed, the same for both, so that they see the same
tokens."""

RUNS = [
    dict(
        task=[f"longbench/{name}" for name in LONGBENCH],
        method=["full", "andpro"]
        + [
            f"{name} M={M} T={T}"
            for name in ("lore_e", "andpro_lookahead")
            for M, T in ((1, 8), (2, 8), (4, 8), (8, 8), (4, 4), (4, 16))
        ],
        budget=[128],
        every="once",
        max_prompt=31500,
    )
]
