"""What one rendering of a chat template may cost.

A template comes from the model file, so it is foreign code. Its work is counted in three units, each with a limit that
grows with the conversation: steps (syntax nodes of loop and macro bodies that were run), characters read by operations
that walk over their operands, and characters made. No single value may be larger than what may be made in all, however
much of it is shared, so that even an operation nobody thought of pricing ends. Counts are the same on every machine; no
clock is read.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from jinja2.exceptions import SecurityError

from strata.model.chat_template.sizes import ELEMENT_CHARS, MAX_DEPTH, VIEWS, Size, Sizes

MAX_STEPS = 4_000_000  # 0.5 to 1.5 s of the interpreter
BASE_SCANNED_CHARS = 64 << 20
SCANNED_PER_INPUT_CHAR = 64
BASE_PRODUCED_CHARS = 8 << 20
PRODUCED_PER_INPUT_CHAR = 8
BASE_OUTPUT_CHARS = 1 << 20
OUTPUT_PER_INPUT_CHAR = 4
STEPS_PER_CALL = 20
STEPS_PER_ELEMENT = 4
_CONTAINER_ELEMENTS = 3  # a container costs as much as so many elements, an empty one too
_FORWARD_WINDOW_CHARS = 100  # a longer text is sought in linear time
_COMPARED_AT_ONCE = 8  # characters that a search compares in the time in which other operations read one


class BudgetExceeded(SecurityError):
    """The template asked for more than its share."""


@dataclass(slots=True)
class Budget:
    """What is left. Belongs to one rendering."""

    steps: int
    scanned_chars: int
    produced_chars: int
    output_chars: int
    max_value_chars: int
    sizes: Sizes = field(default_factory=Sizes)

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
        for value in values:
            self.scan(self._size(value).chars)

    def scan_search(self, text: str, sought: str, *, backwards: bool = False) -> None:
        """Before `sought` is looked for in `text`. At worst a short `sought` is compared at each place, and any at all
        when the search runs backwards."""
        compared = len(sought) if backwards else min(len(sought), _FORWARD_WINDOW_CHARS)
        self.scan(len(text) * (1 + compared // _COMPARED_AT_ONCE))

    def keep(self, value: Any) -> None:
        """After a list, tuple or dict was made, whose elements are paid for."""
        self._check_size(self._size(value))

    def keep_arguments(self, values: Iterable[Any]) -> None:
        """Before a macro is called, which may see its arguments as a tuple or a dict."""
        sizes = [self._size(value) for value in values]
        self._check_size(Size(sum(size.chars for size in sizes), 1 + max((size.depth for size in sizes), default=0)))

    def _size(self, value: Any) -> Size:
        size = self.sizes.of(value)
        if isinstance(value, VIEWS):  # measured anew each time
            self.scan(size.chars)
        return size

    def _check_size(self, size: Size) -> None:
        if size.chars > self.max_value_chars:
            raise BudgetExceeded("it makes too much text: one value of it is too large")
        if size.depth > MAX_DEPTH:
            raise BudgetExceeded(f"a value is nested more than {MAX_DEPTH} levels deep")

    def produce(self, num_chars: int) -> None:
        """Before (where it can be told) a string of `num_chars` characters is made."""
        self.produced_chars -= num_chars
        if self.produced_chars < 0:
            raise BudgetExceeded("it makes too much text")

    def produce_elements(self, count: int) -> None:
        """Before a container of `count` elements is made."""
        self.produce(ELEMENT_CHARS * (count + _CONTAINER_ELEMENTS))

    def output(self, num_chars: int) -> None:
        self.output_chars -= num_chars
        if self.output_chars < 0:
            raise BudgetExceeded("its prompt is too long")


def budget_for(input_chars: int) -> Budget:
    """`input_chars`: characters of the template and the conversation together."""
    produced_chars = BASE_PRODUCED_CHARS + PRODUCED_PER_INPUT_CHAR * input_chars
    return Budget(
        steps=MAX_STEPS,
        scanned_chars=BASE_SCANNED_CHARS + SCANNED_PER_INPUT_CHAR * input_chars,
        produced_chars=produced_chars,
        max_value_chars=produced_chars,
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
