"""`python -m sim`: the whole server in simulated worlds, on the command line. Exit code 1 when a promise was broken.

The same seed gives the same digest in every process. A world that failed is run alone with its own seed and one step.
"""

import argparse
import json
import sys

from sim.world.server.campaign import run_campaign


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first world; the next one has the next number")
    parser.add_argument("--steps", type=int, default=300, help="acts of clients; the last world is finished")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--journal", action="store_true", help="every event to stderr, with its virtual time")
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error(f"--steps={options.steps}: nothing would be played; give 1 or more")
    campaign = run_campaign(seed=options.seed, steps=options.steps, sink=_show if options.journal else None)
    report = campaign.report()
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        for name, value in report.items():
            print(f"{name}: {value}")
    return 1 if campaign.faults_found else 0


def _show(line: str) -> None:
    sys.stderr.write(line)


if __name__ == "__main__":
    raise SystemExit(main())
