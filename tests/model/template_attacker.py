"""Renders hostile templates in a process of their own, which dies when one of them does not end.

    python -m tests.model.template_attacker LIMIT_SECONDS < {name: source} > one JSON list [name, outcome] a line

The time is the processor's and the limit is the kernel's, so that code which never returns to the interpreter ends too.
"""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime

from strata.core.errors import RequestError
from strata.model.chat_template.template import ChatTemplate

LIMIT_SECONDS = 8.0  # of the processor; the longest takes one
LIMIT_BYTES = 400 << 20  # of address space, above what the interpreter has
MAX_DEATHS = 2


def outcome_of(source: str) -> str:
    """The refusal's message, or what was rendered."""
    template = ChatTemplate(source, has_text=bool, special_texts={}, clock=datetime.now)
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Bye"}]
    try:
        return template.render(messages, input_chars=100)
    except RequestError as refused:
        return refused.message


def outcomes_of(sources: Mapping[str, str], *, limit_seconds: float = LIMIT_SECONDS) -> dict[str, str]:
    """Of each source. One that brings its process down says so; after MAX_DEATHS the rest is not tried."""
    outcomes: dict[str, str] = {}
    for _ in range(MAX_DEATHS):
        left = {name: source for name, source in sources.items() if name not in outcomes}
        if not left:
            break
        ended = subprocess.run(
            [sys.executable, "-m", "tests.model.template_attacker", str(limit_seconds)],
            input=json.dumps(left),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        outcomes |= dict(map(json.loads, ended.stdout.splitlines()))
        if ended.returncode:
            dead = next(name for name in left if name not in outcomes)
            outcomes[dead] = f"brought its process down: status {ended.returncode}"
    return dict.fromkeys(sources, "was not tried") | outcomes


def _address_space_bytes() -> int:
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[0]) * resource.getpagesize()


def main() -> None:
    sources, limit_seconds = json.load(sys.stdin), float(sys.argv[1])
    outcome_of("{{ [1] | sort }}")  # what is loaded once does not count
    limit_bytes = _address_space_bytes() + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
    for name, source in sources.items():
        signal.setitimer(signal.ITIMER_PROF, limit_seconds)
        outcome = outcome_of(source)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([name, outcome[:1000]]), flush=True)


if __name__ == "__main__":
    main()
