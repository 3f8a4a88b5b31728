"""Whether two mathematical answers are equal: the same string once normalised, or equal to math-verify.

math-verify is asked through its LaTeX grammar alone, in a process of its own with limits on time and memory
(`eval.math_worker`), and text is never evaluated as code. What is too hard for the limits counts as not equal.
"""

import atexit
import contextlib
import importlib.util
import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path

from nanokv import UserError

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 1000  # characters of an answer; MATH500's longest reference has 53
PATIENCE = 60  # seconds without a sign of life; the worker's own limit is half a second of computing
UNSEEN = re.compile(r"\\(?:left|right)(?![a-zA-Z])|(?<!\\)\\[!,;: ]|\s|\\?\$")


def equal(pred: str, gold: str) -> bool:
    """Whether the answer `pred` has the value of the reference `gold`, both LaTeX without a box. Not symmetric.

    UserError where math-verify is not installed.
    """
    prepare()
    if len(pred) > LONGEST:
        return False
    return normalized(pred) == normalized(gold) or WORKER.ask(pred, gold)


def normalized(text: str) -> str:
    r"""Without white space, "$", `\left`, `\right` and a full stop at the end; `\dfrac` and `\tfrac` as `\frac`."""
    return re.sub(r"\\[dt]frac(?![a-zA-Z])", r"\\frac", UNSEEN.sub("", text).rstrip("."))


def prepare():
    """Have a process ready; a task calls it before hours of answering. UserError where math-verify is missing."""
    if importlib.util.find_spec("math_verify") is None:
        raise UserError("math_verify is missing: pip install -r eval/requirements.txt")
    WORKER.wait_until_ready()


class Worker:
    """The process that compares: started when first asked, and again whenever it has ended over a question."""

    def __init__(self):
        self.process, self.ready = None, False

    def ask(self, pred: str, gold: str) -> bool:
        """The verdict of a process that is ready; False where it ends over the question, and the next one starts."""
        try:
            verdict = self.line_after(json.dumps([pred, gold]))
        except BaseException:  # Ctrl-C too: a late verdict must not answer the next question
            self.stop()
            raise
        if verdict not in (b"true\n", b"false\n"):
            self.start()
        return verdict == b"true\n"

    def wait_until_ready(self):
        if self.process is None or self.process.poll() is not None:
            self.start()
        if not self.ready and self.line() != b"ready\n":
            self.stop()
            raise UserError("the process that compares answers does not start; to see why: python -m eval.math_worker")
        self.ready = True

    def line_after(self, question: str) -> bytes:
        try:
            self.process.stdin.write(question.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return b""
        return self.line()

    def line(self) -> bytes:
        """The next line; empty where the process ends or is silent for too long."""
        heard, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        return self.process.stdout.readline() if heard else b""

    def start(self):
        self.stop()
        command = [sys.executable, "-m", "eval.math_worker"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        # sets and dicts in one order: the same verdicts every time
        self.process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, **pipes)
        self.ready = False

    def stop(self):
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):  # what was not written is lost with the process
            self.process.stdin.close()
        self.process = None


WORKER = Worker()
atexit.register(WORKER.stop)
