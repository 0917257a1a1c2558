"""Judges texts with one published detector: a line of JSON in, a line out.

In: {"text": "..."}. Out: {"held": true, "us": 12.5}, how long it took in
microseconds; {"error": "..."} where the detector failed, which counts as held
nowhere. Each detector is called as its own documentation calls it first, with
its defaults; a text is held where it would not be stored as it is.
"""

import contextlib
import json
import logging
import sys
import time


def agent_memory_guard():
    from agent_memory_guard.scan import scan

    return lambda text: not scan(text).safe


def agent_os():
    from agent_os.memory_guard import MemoryGuard

    guard = MemoryGuard()
    return lambda text: not guard.validate_write(text, "user").allowed


def bastionmemory():
    from bastionmemory import MemoryEntry, scan

    return lambda text: bool(scan([MemoryEntry(file="MEMORY.md", line=1, text=text)]))


def injectguard():
    from injectguard import scan

    return lambda text: scan(text).is_injection


def memgar():
    from memgar import Memgar
    from memgar.models import Decision

    guard = Memgar()
    return lambda text: guard.analyze(text).decision != Decision.ALLOW


def prompt_injection_defense():
    from prompt_injection_defense import detect_prompt_injection

    return lambda text: detect_prompt_injection(text)["label"] != "benign"


def sunglasses():
    from sunglasses.engine import SunglassesEngine

    engine = SunglassesEngine()
    return lambda text: engine.scan(text).threat_found


def main():
    logging.disable(logging.CRITICAL)
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # some of them print
        held = globals()[sys.argv[1]]()
        for line in sys.stdin:
            text = json.loads(line)["text"]
            begin = time.perf_counter_ns()
            try:
                answer = {"held": bool(held(text))}
            except Exception as error:  # a detector's failure is told, not hidden
                answer = {"error": type(error).__name__}
            answer["us"] = (time.perf_counter_ns() - begin) / 1000
            print(json.dumps(answer), file=out, flush=True)


main()
