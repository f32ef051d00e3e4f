"""Mistakes in the command line itself, and what needs no command."""

from importlib.metadata import version
from typing import Any

import pytest

from strata.cli import build_parser, main


def test_a_mistake_is_told_with_the_usage_of_its_command_and_the_nearest_name(capsys: Any) -> None:
    for arguments, words in (
        (
            ("serve", "m", "--prot=5"),
            ("usage: strata serve [MODEL]", "serve: error: unknown option --prot; did you mean --port?"),
        ),
        (
            ("demo", "--vrm", "5"),
            ("usage: strata demo", "unknown option --vrm; did you mean --vram?"),
        ),
        (("chat", "--xyz"), ("usage: strata chat", "unknown option --xyz; strata chat --help lists what there is")),
        (("plan", "m", "n"), ("usage: strata plan [MODEL]", "strata plan: error: unexpected argument 'n'")),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        text = capsys.readouterr().err
        assert ended.value.code == 2 and all(word in text for word in words), text
        assert len(text.splitlines()) <= 4


def test_the_version_is_that_of_the_installed_distribution(capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"strata {version('strata-moe')}\n")


def test_abbreviations_are_no_options() -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["serve", "m.gguf", "--vram-seg", "64"])
