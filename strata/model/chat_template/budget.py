"""What one rendering of a chat template may cost.

A template comes from the model file, so it is foreign code. Its work is counted in three units, each with a limit that
grows with the conversation: steps (syntax nodes of loop and macro bodies that were run), characters read by operations
that walk over their operands, and characters made. Counts are the same on every machine; no clock is read.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from jinja2.exceptions import SecurityError

MAX_STEPS = 4_000_000  # 0.5 to 1.5 s of the interpreter
BASE_SCANNED_CHARS = 64 << 20
SCANNED_PER_INPUT_CHAR = 64
BASE_PRODUCED_CHARS = 8 << 20
PRODUCED_PER_INPUT_CHAR = 8
BASE_OUTPUT_CHARS = 1 << 20
OUTPUT_PER_INPUT_CHAR = 4
ELEMENT_CHARS = 32  # an element of a list counts as so many characters
STEPS_PER_CALL = 20
STEPS_PER_ELEMENT = 4

_CONTAINERS: Any = (
    list,
    tuple,
    dict,
    set,
    frozenset,
    range,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)


class BudgetExceeded(SecurityError):
    """The template asked for more than its share."""


@dataclass(slots=True)
class Budget:
    """What is left. Belongs to one rendering."""

    steps: int
    scanned_chars: int
    produced_chars: int
    output_chars: int

    def step(self, count: int) -> None:
        self.steps -= count
        if self.steps < 0:
            raise BudgetExceeded(f"it ran on: more than {MAX_STEPS:,} steps")

    def scan(self, num_chars: int) -> None:
        """Before an operation that reads `num_chars` characters."""
        self.scanned_chars -= num_chars
        if self.scanned_chars < 0:
            raise BudgetExceeded("it ran on: it reads the conversation too often")

    def scan_deep(self, *values: Any) -> None:
        """Before an operation that walks over everything inside `values`; shared parts count each time."""
        pending: list[Any] = list(values)
        while pending:
            value = pending.pop()
            if isinstance(value, str):
                self.scan(len(value))
            elif isinstance(value, _CONTAINERS):
                self.scan(ELEMENT_CHARS * (len(value) + 1))
                if not isinstance(value, range):
                    pending.extend(value)
                if isinstance(value, Mapping):
                    pending.extend(value.values())

    def produce(self, num_chars: int) -> None:
        """Before (where it can be told) a string of `num_chars` characters is made."""
        self.produced_chars -= num_chars
        if self.produced_chars < 0:
            raise BudgetExceeded("it makes too much text")

    def produce_elements(self, count: int) -> None:
        self.produce(ELEMENT_CHARS * (count + 1))

    def output(self, num_chars: int) -> None:
        self.output_chars -= num_chars
        if self.output_chars < 0:
            raise BudgetExceeded("its prompt is too long")


def budget_for(input_chars: int) -> Budget:
    """`input_chars`: characters of the template and the conversation together."""
    return Budget(
        steps=MAX_STEPS,
        scanned_chars=BASE_SCANNED_CHARS + SCANNED_PER_INPUT_CHAR * input_chars,
        produced_chars=BASE_PRODUCED_CHARS + PRODUCED_PER_INPUT_CHAR * input_chars,
        output_chars=BASE_OUTPUT_CHARS + OUTPUT_PER_INPUT_CHAR * input_chars,
    )


_CURRENT: ContextVar[Budget] = ContextVar("chat_template_budget")


def current() -> Budget:
    """The budget of the rendering that this thread is in."""
    return _CURRENT.get()


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """What happens inside is charged to `budget`."""
    token = _CURRENT.set(budget)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def counted(values: Iterable[Any]) -> Iterator[Any]:
    """`values`, charged as they are taken."""
    for value in values:
        current().step(STEPS_PER_ELEMENT)
        yield value
