"""Prints errors.txt: the phrases of the errors of the Letta V1 server, taken from
the server's source.

Run it with a Python in which letta==0.16.8 is installed:

    python adapters/letta/errors.py > adapters/letta/errors.txt

A text is printed if the source holds it as a constant or as a format string. A
placeholder for another error becomes {phrase}, which is shown if it is itself one of
these texts. Any other placeholder but for a number or an id becomes {any}, which is not
shown to callers, because it can hold the data of other users.
"""

import ast
import importlib.util
import pathlib
import re
import sys

# Members and arguments that hold the text of an error.
SAYS = {"detail", "message", "error", "default_error_message", "error_message", "msg", "explanation"}
NUMBER = re.compile(r"^(len\(.*\)|.*(count|limit|_size|tokens|_length|num_\w+|_estimate|context_window|retries|seconds|timeout|max_\w+|min_\w+))$")
NAME = re.compile(r"^(\w+\.)*(\w*_id|id|identifier|cls\.__name__|status|role|resource_type|parameter_name|primitive|operation|before|after|handle|func\.__name__)$")
ERROR = re.compile(r"^(str\()?(\w+\.)?(e|err|exc|error|exception|message|error_message|detail|reason)\)?$")


def text(node):
    """The text of an expression, with its placeholders, or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if not re.search(r"\{(n|names?|phrase|any)\}", node.value) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text(node.left), text(node.right)
        return left + right if left is not None and right is not None else None
    if not isinstance(node, ast.JoinedStr):
        return None
    out = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            out += part.value
            continue
        inside = ast.unparse(part.value)
        if NUMBER.match(inside):
            out += "{n}"
        elif out.endswith("}"):
            return None
        elif NAME.match(inside):
            out += "{name}"
        elif ERROR.match(inside):
            out += "{phrase}"
        else:
            out += "{any}"
    return out


def said(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from node.exc.args[:1]
        if isinstance(node, ast.Call):
            yield from (k.value for k in node.keywords if k.arg in SAYS or k.arg == "error_type")
            called = ast.unparse(node.func)
            if isinstance(node.func, ast.Name) and called.endswith("Error") or called == "super().__init__":
                yield from node.args[:1]
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                if isinstance(key, ast.Constant) and key.value in SAYS | {"type", "error_code"}:
                    yield value
        if isinstance(node, ast.Assign) and any(re.split(r"[._]", ast.unparse(t))[-1] in SAYS for t in node.targets):
            yield node.value
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from node.args.defaults


def main():
    root = pathlib.Path(importlib.util.find_spec("letta").submodule_search_locations[0])
    phrases = set()
    for path in root.rglob("*.py"):
        # Code that does not run in the server, and texts for models and developers.
        if any(part in {"cli", "prompts", "function_sets", "data_sources", "local_llm", "humans", "personas"} for part in path.parts):
            continue
        for node in said(ast.parse(path.read_text())):
            for each in (node.body, node.orelse) if isinstance(node, ast.IfExp) else (node,):
                phrase = text(each)
                if phrase and "\n" not in phrase and 8 <= len(phrase) <= 400 and len(re.findall(r"[A-Za-z]{2,}", phrase)) >= 2 and phrase == phrase.strip():
                    phrases.add(phrase)
    print("# Phrases of the errors of the Letta V1 server. Written by errors.py.")
    for phrase in sorted(phrases):
        print("phrase", phrase)


if __name__ == "__main__":
    sys.exit(main())
