"""The help of the Makefile, which is where a newcomer looks first."""

import re
import subprocess

from tests.tidy.tree import ROOT


def test_make_help_lists_every_target() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert phony is not None
    listed = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    assert set(re.findall(r"^  make (\w+) +\S", listed, re.MULTILINE)) == set(phony[1].split())
