"""The process in which `eval.math_check` compares answers, so that none can stall or exhaust the run.

In: a line of JSON, [answer, reference]. Out: true or false. An answer that needs more than CPU_SECONDS ends the
process, in the middle of a big number too, where no Python exception would arrive.
"""

import json
import logging
import resource
import signal
import sys

import sympy
import sympy.physics.units  # simplify() imports it late, and it makes its symbols by parse_expr
from math_verify import LatexExtractionConfig, parse, verify
from sympy.parsing import sympy_parser

CPU_SECONDS = 0.5  # of the 1000 reference answers none needs a third of that
MEMORY = 4 << 30  # bytes of address space


def main():
    logging.disable()  # math-verify warns that its own time limits are off
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run; this ends with its input
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    never_evaluate()
    same("(x+1)^2", "x^2+2x+1")  # loads what the libraries load late
    print("ready", flush=True)
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        verdict = same(*json.loads(line))
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(verdict), flush=True)


def same(pred: str, gold: str) -> bool:
    """math-verify's verdict by its LaTeX grammar alone. Not symmetric: gold comes first. What fails is not equal."""
    try:
        return verify(parsed(gold), parsed(pred), timeout_seconds=None)
    except Exception:  # the libraries raise many kinds, RecursionError and MemoryError among them
        return False


def parsed(text: str) -> list:
    return parse(f"${text}$", extraction_config=[LatexExtractionConfig()], parsing_timeout=None)


def never_evaluate():
    """Close the one door from text to Python code, sympy's parse_expr, which ends in eval.

    The LaTeX converter itself goes through it for every numeral, by sympy.Number("12").
    """
    sympy_parser.parse_expr = numeral


def numeral(text: str, *_, **__) -> sympy.Number:
    """ValueError for all but numerals."""
    return sympy.Integer(text) if text.isdigit() else sympy.Float(text)


if __name__ == "__main__":
    main()
