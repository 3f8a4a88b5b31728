TITLE = "Needle in a haystack, length by depth, B = 1024"
SOURCE = "arXiv 2610.07643, needle figure (Llama-3.1-8B-Instruct)"
READING = """Lengths 1K to 128K and ten depths; the page prints neither. The judge-free form: ROUGE-1 against the
needle, as the KV-cache papers score it, not GPT's 1-10. `eval.table --by depth` gives the heat map's rows. Models may
know this needle's sentence: niah_single_2, a random number in the same essays, is the control."""

LENGTHS = [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072]
RUNS = [
    dict(
        task=[f"{name}@{length}" for name in ("needle", "ruler/niah_single_2") for length in LENGTHS],
        method=["full", "snapkv", "criticalkv", "andpro", "lore_e", "lore_d"],
        budget=[1024],
        every="once",
        samples=10,
    )
]
