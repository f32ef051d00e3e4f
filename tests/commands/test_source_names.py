"""Refusals in the words of the source that set the value."""

from pathlib import Path

import pytest

from strata.commands.config_sources import resolve
from strata.commands.source_names import name_by_source, named_by_source
from strata.config.refusals import check_config
from strata.core.errors import ConfigError


def test_a_reason_names_an_option_as_its_source_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "strata.toml"
    file.write_text("queue = -1\nSTRATA_PREFILL_RING = 9\n")
    environment = {"STRATA_PORT": "70000", "STRATA_CONFIG": str(file)}
    resolved = resolve("m", {"ctx": "1", "vram-segment-mib": "3"}, environment)
    with pytest.raises(ConfigError) as caught, named_by_source(resolved):
        raise ConfigError(*(refusal.reason for refusal in check_config(resolved.config)))
    assert caught.value.reasons == (
        "vram-segment-mib refused: vram-segment-mib=3 MiB; give --vram-segment-mib a multiple of 2 MiB",
        "ctx refused: ctx=1 tokens; give --ctx 2 or more",
        "port refused: port=70000; give STRATA_PORT 0 (any free port) to 65535",
        f"queue refused: queue=-1 requests; give queue 0 or more (queue is set in {file})",
    )
    told = name_by_source("lower --queue, --spec or STRATA_PREFILL_RING; not /a/--port or --ports", resolved)
    assert told == (
        "lower queue, --spec or STRATA_PREFILL_RING; not /a/--port or --ports "
        f"(queue and STRATA_PREFILL_RING are set in {file})"
    )
