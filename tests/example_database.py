"""Where Hypothesis keeps examples that failed: beside the checkout, or with others in a Redis.

    STRATA_EXAMPLES_REDIS=redis://HOST:PORT/0            write there and read from there, as workers do
    STRATA_EXAMPLES_REDIS_READ_ONLY=redis://HOST:PORT/0  replay what others found, keep own finds beside the checkout

A key is a digest of a test's source, so an example lives as long as its test is not edited; what must stay is kept as
a trace (tests/regress).
"""

from collections.abc import Mapping

from hypothesis.database import (
    DirectoryBasedExampleDatabase,
    ExampleDatabase,
    MultiplexedDatabase,
    ReadOnlyDatabase,
)

SHARED, READ_ONLY = "STRATA_EXAMPLES_REDIS", "STRATA_EXAMPLES_REDIS_READ_ONLY"
FOLDER = ".hypothesis/examples"


def example_database(environment: Mapping[str, str]) -> ExampleDatabase:
    """Raises ValueError where both variables are set."""
    shared, read_only = environment.get(SHARED, ""), environment.get(READ_ONLY, "")
    if shared and read_only:
        raise ValueError(f"{SHARED} and {READ_ONLY} are both set; a process writes there or it does not, unset one")
    if shared:
        return _redis(shared)
    own = DirectoryBasedExampleDatabase(FOLDER)
    return MultiplexedDatabase(own, ReadOnlyDatabase(_redis(read_only))) if read_only else own


def _redis(url: str) -> ExampleDatabase:
    """Nothing is asked of the server before the first example."""
    from hypothesis.extra.redis import RedisExampleDatabase
    from redis import Redis

    return RedisExampleDatabase(Redis.from_url(url))
