"""The README's example of room and elastic loan is what `strata plan` prints."""

import textwrap
from pathlib import Path

import pytest

from strata.cli import main
from tests.tidy.tree import ROOT


@pytest.mark.slow
def test_the_example_of_room_and_elastic_loan_is_what_plan_prints(
    lend_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("    $ cat lend.toml\n")[2].partition("\n\n")[0]
    )
    options, _, printed = example.partition("    $ strata plan lend.gguf --config lend.toml\n")
    (tmp_path / "lend.toml").write_text(textwrap.dedent(options), encoding="utf-8")
    assert main(["plan", str(lend_model), "--config", str(tmp_path / "lend.toml")]) == 0
    lines = [line for line in textwrap.dedent(printed).splitlines() if line != "..."]
    assert len(lines) == 6
    assert "\n".join(lines) + "\n" in capsys.readouterr().out
