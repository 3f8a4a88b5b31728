"""LongBench's templates for its 16 English tasks, letter for letter (THUDM/LongBench, config/dataset2prompt.json).

"asconcisely", the space before a line break and the one before the second "Answer" of qasper are upstream's.
"""

BRIEFLY = (
    "using a single phrase or sentence if possible. If the question cannot be answered based on the information in the"
    ' article, write "unanswerable". If the question is a yes/no question, answer "yes", "no", or "unanswerable". Do'
    " not provide any explanation."
)
STORY = "asconcisely as you can, using a single phrase if possible. Do not provide any explanation."
ONLY = "Only give me the answer and do not output any other words."
PASSAGES = (
    f"Answer the question based on the given passages. {ONLY}\n\nThe following are given passages.\n{{context}}\n\n"
    f"Answer the question based on the given passages. {ONLY}\n\nQuestion: {{input}}\nAnswer:"
)
CODE = "Please complete the code given below. \n"

TEMPLATES = {
    "narrativeqa": (
        "You are given a story, which can be either a novel or a movie script, and a question. Answer the question"
        f" {STORY}\n\nStory: {{context}}\n\nNow, answer the question based on the story {STORY}\n\n"
        "Question: {input}\n\nAnswer:"
    ),
    "qasper": (
        "You are given a scientific article and a question. Answer the question as concisely as you can,"
        f" {BRIEFLY}\n\nArticle: {{context}}\n\n Answer the question based on the above article as concisely as you"
        f" can, {BRIEFLY}\n\nQuestion: {{input}}\n\nAnswer:"
    ),
    "multifieldqa_en": (
        "Read the following text and answer briefly.\n\n{context}\n\nNow, answer the following question based on the"
        " above text, only give me the answer and do not output any other words.\n\nQuestion: {input}\nAnswer:"
    ),
    "hotpotqa": PASSAGES,
    "2wikimqa": PASSAGES,
    "musique": PASSAGES,
    "gov_report": (
        "You are given a report by a government agency. Write a one-page summary of the report.\n\nReport:\n{context}"
        "\n\nNow, write a one-page summary of the report.\n\nSummary:"
    ),
    "qmsum": (
        "You are given a meeting transcript and a query containing a question or instruction. Answer the query in one"
        " or more sentences.\n\nTranscript:\n{context}\n\nNow, answer the query based on the above meeting transcript"
        " in one or more sentences.\n\nQuery: {input}\nAnswer:"
    ),
    "multi_news": (
        "You are given several news passages. Write a one-page summary of all news. \n\nNews:\n{context}\n\nNow, write"
        " a one-page summary of all the news.\n\nSummary:"
    ),
    "trec": (
        "Please determine the type of the question below. Here are some examples of questions.\n\n{context}\n{input}"
    ),
    "triviaqa": (
        f"Answer the question based on the given passage. {ONLY} The following are some examples.\n\n"
        "{context}\n\n{input}"
    ),
    "samsum": (
        "Summarize the dialogue into a few short sentences. The following are some examples.\n\n{context}\n\n{input}"
    ),
    "passage_count": (
        "There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please carefully read"
        " these paragraphs and determine how many unique paragraphs there are after removing duplicates. In other"
        " words, how many non-repeating paragraphs are there in total?\n\n{context}\n\nPlease enter the final count of"
        " unique paragraphs after removing duplicates. The output format should only contain the number, such as 1, 2,"
        " 3, and so on.\n\nThe final answer is: "
    ),
    "passage_retrieval_en": (
        "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the abstract"
        " is from.\n\n{context}\n\nThe following is an abstract.\n\n{input}\n\nPlease enter the number of the paragraph"
        ' that the abstract is from. The answer format must be like "Paragraph 1", "Paragraph 2", etc.\n\n'
        "The answer is: "
    ),
    "lcc": CODE + "{context}Next line of code:\n",
    "repobench-p": CODE + "{context}{input}Next line of code:\n",
}


def split_prompt(name: str, context: str, question: str) -> tuple:
    """(up to and with the context and the line breaks behind it, the rest) of the filled template.

    The two joined are upstream's prompt. Braces in a text stay as they are.
    """
    before, after = TEMPLATES[name].split("{context}")
    rest = after.lstrip("\n")
    breaks = after[: len(after) - len(rest)]
    return before + context + breaks, rest.replace("{input}", question)
