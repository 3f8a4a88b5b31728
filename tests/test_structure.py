"""The shape of the code: imports go one way, files and functions stay short, names and paths stay where they belong."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# a file may import those before it
ORDER = [
    *("config_rope", "config", "masks", "products", "rope"),
    *("buffer", "compact", "hooks", "attention", "model"),
    *("files", "load", "template", "chat"),
    *("passes", "sample", "budgets", "evict", "generate", "trace", "lookahead"),
    *("scores", "released", "key_scores", "surprise"),
    *("deletion", "reliability", "effects", "window_scores", "laq", "lore"),
    *("methods", "own", "options", "page"),
    *("arguments", "demo", "__main__"),
]
MODEL_KEYS = [
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("intermediate_size", "max_position_embeddings", "rms_norm_eps", "rope_theta"),
    *("rope_scaling", "rope_parameters", "tie_word_embeddings", "layer_types", "model_type"),
    *("embed_tokens", "lm_head", "input_layernorm", "post_attention_layernorm", "self_attn"),
    *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
]
KNOW_MODEL_KEYS = {"config.py", "config_rope.py", "load.py", "files.py"}
STEPPED = {
    *("masks", "products", "rope", "buffer", "compact", "hooks", "attention", "model", "passes"),
    *("evict", "generate", "scores", "surprise"),
}
PRINT = {"__main__.py", "arguments.py", "demo.py"}


def python_files(*folders) -> list:
    found = sorted(path for folder in folders for path in (ROOT / folder).glob("*.py"))
    assert found
    return found


NANOKV = python_files("nanokv")
ALL = python_files("nanokv", "weights", "eval", "eval/tasks", "eval/recipes", "tests", "tests/golden")


def name(path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_of(path) -> set:
    """Full names of the modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)} imports relative to itself"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_the_order_names_every_file_once():
    assert sorted(ORDER) == sorted(path.stem for path in NANOKV if path.stem != "__init__")


@pytest.mark.parametrize("path", NANOKV, ids=name)
def test_imports_go_only_to_files_above(path):
    ours = {module.split(".")[1] for module in imports_of(path) if module.startswith("nanokv.")} & set(ORDER)
    above = ORDER[: ORDER.index(path.stem)] if path.stem in ORDER else []
    assert ours - set(above) == set()


def test_the_package_imports_nothing_that_requirements_txt_does_not_name():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    required = {re.match(r"[\w-]+", line)[0] for line in lines if re.match(r"\w", line)}
    allowed = required | set(sys.stdlib_module_names) | {"nanokv"}
    for path in NANOKV:
        own = {"weights"} if path.name == "__main__.py" else set()  # the default checkpoint's fetcher
        assert {module.split(".")[0] for module in imports_of(path)} - allowed - own == set(), name(path)


@pytest.mark.parametrize("path", ALL, ids=name)
def test_no_file_has_more_than_200_lines_and_no_function_more_than_40(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    lengths = {f.name: f.end_lineno - f.lineno + 1 for f in functions}
    assert {f: n for f, n in lengths.items() if n > 40} == {}


@pytest.mark.parametrize("path", NANOKV, ids=name)
def test_every_file_begins_with_its_idea(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)


@pytest.mark.parametrize("path", NANOKV, ids=name)
def test_only_the_command_line_and_the_demo_print(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert path.name in PRINT or not called & {"print", "input", "breakpoint"}


@pytest.mark.parametrize("path", NANOKV, ids=name)
def test_a_checkpoint_s_own_names_stand_only_in_the_config_and_loading_files(path):
    words = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    assert path.name in KNOW_MODEL_KEYS or not words & set(MODEL_KEYS)


def test_the_names_looked_for_are_really_those_of_checkpoints():
    known = " ".join((ROOT / "nanokv" / file).read_text(encoding="utf-8") for file in KNOW_MODEL_KEYS)
    assert sum(key in known for key in MODEL_KEYS) > 20


@pytest.mark.parametrize("path", NANOKV, ids=name)
def test_no_class_is_a_module_and_no_decorator_stands_on_the_stepping_path(path):
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    bases = {ast.unparse(base) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases}
    assert not bases & {"Module", "nn.Module", "torch.nn.Module"}
    decorators = {ast.unparse(d).split("(")[0] for node in nodes for d in getattr(node, "decorator_list", [])}
    assert path.stem not in STEPPED or decorators <= {"dataclass", "property"}


def test_no_committed_text_names_a_folder_of_one_machine():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    folders = "|".join(("home", "root", "work", "Users", "tmp", "mnt"))
    own = re.compile(rf"(?<![\w.~}}])/({folders})/\w")
    for file in listed.stdout.splitlines():
        try:
            text = (ROOT / file).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        assert own.search(text) is None, f"{file}: {own.search(text)}"
