"""How far a shutdown has come: the one thing `serve` tells the requests that still run."""

from dataclasses import dataclass, field

import trio


@dataclass(slots=True)
class Drain:
    """`is_draining`: no new request is accepted. `grace_over`: what still runs ends now, with an error."""

    is_draining: bool = False
    grace_over: trio.Event = field(default_factory=trio.Event)
