"""Records the cases of hitl/ as files, or checks that they come out as recorded.

    hitl.py --base URL --stub URL --out DIR [--check] [name ...]
"""

import argparse
import difflib
import pathlib
import sys
import traceback

from hitl import answers, edges, elsewhere, rules, streams
from lib.wire import Wire


def cases():
    for module in (answers, streams, edges, rules, elsewhere):
        for name, case in vars(module).items():
            if name.startswith("case_"):
                yield name.removeprefix("case_").replace("_", "-"), case


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", required=True)
    parser.add_argument("--stub", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    for name, case in cases():
        if given.names and name not in given.names:
            continue
        stub = Wire(given.stub.rstrip("/"))
        stub.ask("DELETE", "/_e2e/prompts")
        wire = Wire(given.base.rstrip("/"), (given.stub.rstrip("/"), "http://stub"))
        try:
            case(wire, stub)
            fault = ""
        except Exception:
            fault = traceback.format_exc()
        text = wire.text(case.__doc__)
        file = given.out / f"{name}.txtar"
        if not fault and given.check:
            known = file.read_text() if file.exists() else ""
            fault = "".join(difflib.unified_diff(known.splitlines(True), text.splitlines(True), "recorded", "now"))
        elif not given.check:
            file.write_text(text)
        if fault:
            print(f"FAIL {name}\n{fault}", file=sys.stderr)
        failed += bool(fault)
        passed += not fault
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
