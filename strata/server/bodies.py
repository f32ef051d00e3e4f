"""How many bytes of request bodies the server holds at once, over all connections.

    bytes arrive --> counted against the sum --> parsed, or the request ends --> given back
                         |
                         the sum is full: this request's bytes are dropped, it gets a 503 `overloaded`

Bytes count as they arrive, never as they are announced: a client that declares a long body and sends nothing takes no
room from others. Knows no request. The parsing threads of clients that left may hold their bodies a little longer than
is counted: at most `num_text_threads` of them.
"""


class BodyBudget:
    """`held_bytes` of at most `limit_bytes`."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes, self.held_bytes = limit_bytes, 0


class BodyShare:
    """What one request holds of the budget. Once `is_refused`, it takes no more."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget, self._held_bytes = budget, 0
        self.is_refused = False

    def take(self, size_bytes: int) -> bool:
        """Whether the next `size_bytes` may be held. If not, what this request holds already is given back."""
        budget = self._budget
        if self.is_refused or size_bytes > budget.limit_bytes - budget.held_bytes:
            self.is_refused = True
            self.release()
            return False
        budget.held_bytes += size_bytes
        self._held_bytes += size_bytes
        return True

    def release(self) -> None:
        """Give everything back; a second call gives nothing."""
        self._budget.held_bytes -= self._held_bytes
        self._held_bytes = 0
