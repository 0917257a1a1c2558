"""python -m engine --port N --stub-url URL --data-dir DIR"""

import argparse
import os
import sys
from pathlib import Path

# Mem0 reads these while being imported: no telemetry, nothing under $HOME.
os.environ["MEM0_TELEMETRY"] = "false"
os.environ.pop("OPENROUTER_API_KEY", None)


def main():
    parser = argparse.ArgumentParser(prog="engine")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--stub-url", required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--public-url", help="what next/previous links start with (default: this server)")
    args = parser.parse_args()
    os.environ["MEM0_DIR"] = str(Path(args.data_dir) / "mem0")

    import uvicorn

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from stubmodel import die_with_parent

    from . import app, core

    die_with_parent()
    engine = core.build(args.data_dir, args.stub_url)
    application = app.create(engine, args.public_url or f"http://127.0.0.1:{args.port}")
    # h11 keeps the request target undecoded, which the wire log relies on.
    uvicorn.run(application, host="127.0.0.1", port=args.port, http="h11", log_level="warning")


if __name__ == "__main__":
    main()
