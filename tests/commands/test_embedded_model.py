"""Commands without MODEL mean the model that comes with strata."""

import json

import pytest

from strata.cli import main
from strata.commands.embedded_model import EMBEDDED, model_or_embedded
from strata.core.errors import ConfigError


def test_what_is_named_comes_first_and_the_model_that_comes_with_strata_else() -> None:
    assert model_or_embedded("m.gguf", drafter="d.gguf") == "m.gguf"
    assert model_or_embedded(None) == model_or_embedded(None, drafter="1") == str(EMBEDDED)


def test_a_file_behind_mtp_is_never_taken_for_a_drafter_of_a_model_that_was_not_named() -> None:
    with pytest.raises(ConfigError, match=r"no MODEL is named, and --mtp has m\.gguf; write --mtp behind MODEL"):
        model_or_embedded(None, drafter="m.gguf")


def test_it_is_planned_and_inspected_unnamed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--vram", "32MiB", "--mtp", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drafter"]["num_experts"] == 32
    assert main(["inspect"]) == 0
    assert "qwen35moe: strata-tiny" in capsys.readouterr().out
