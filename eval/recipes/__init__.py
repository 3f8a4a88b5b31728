"""Recipes, what to run for a table or figure of the two papers: `python -m eval.run --recipe NAME --model DIR --out O`.

One file each, constants only, to be read beside the paper and copied for one's own. `--recipe FILE.py` takes a copy.

    TITLE    what it shows
    SOURCE   paper, table or figure
    READING  what the paper leaves open, or says twice, and which reading this is
    RUNS     a list of dicts; each runs every task x method x budget x ask x seed of its lists

    task            names as eval.run takes them: ["math500"], ["ruler/vt@4096"]
    method          ["snapkv", "causal_surprise span=17"]: a name and its options
    budget          [128, 512] rows per layer and kv head, everything counted; `full` takes none
    every           refresh every h tokens: an int, "J/4" or "J/2" of the budget, "once" after the prompt; None: each
                    method's own schedule
    ask             ["before", "after"]: with the question, or before it comes; default ["before"]
    samples         at most so many of each task; None: all that the file has
    seeds           default [0]
    dtype           None: as `auto`
    max_new_tokens  None: each task's own
    max_prompt      longer prompts are cut in the middle to so many tokens; None: never
    protect         "sinks:4,recent:32", in the words of --protect; None: each method's own
    settings        further options of eval.run by their names, {"budget_excludes_protected": True}
    optional        True: tasks whose data file is absent are named and left out, not an error

The model is the user's to name; READING says which ones the paper used. What no run of a benchmark can give has no
recipe: the counter-causal paper's Figure 4 is drawn by eval.pictures; LORE-KV's mechanism analyses (coverage, retention
shift, token classes, layers and heads) look inside a method.
"""

RULER = ["niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3"]
RULER += ["niah_multivalue", "niah_multiquery", "vt", "cwe", "fwe", "qa_1", "qa_2"]
LONGBENCH = ["narrativeqa", "qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "musique", "gov_report", "qmsum"]
LONGBENCH += ["multi_news", "trec", "triviaqa", "samsum", "passage_count", "passage_retrieval_en", "lcc", "repobench-p"]
