"""The application object: what a request's code may reach. The routes are `app.py`'s, and nothing here knows one."""

from quart_trio import QuartTrio

from strata.engine.ports import Engine
from strata.server.bodies import BodyBudget
from strata.server.drain import Drain
from strata.server.metrics import Metrics
from strata.server.ports import ServedModel, ServerLimits, TextPort
from strata.server.surroundings import Surroundings


class Edge(QuartTrio):
    """The application and what it was given. `drain` is moved by `serve`."""

    def __init__(
        self,
        engine: Engine,
        text: TextPort,
        model: ServedModel,
        limits: ServerLimits,
        metrics: Metrics,
        surroundings: Surroundings,
    ) -> None:
        super().__init__("strata.server", static_folder=None)
        self.engine, self.text, self.model, self.limits, self.metrics = engine, text, model, limits, metrics
        self.drain = Drain()
        self.surroundings = surroundings
        self.bodies = BodyBudget(limits.max_total_body_bytes)
        self.config["MAX_CONTENT_LENGTH"] = limits.max_body_bytes
        self.config["BODY_TIMEOUT"] = limits.body_deadline_s
        self.config["RESPONSE_TIMEOUT"] = None  # quart's 60 s cut every long reply without a word
        self.url_map.merge_slashes = False  # a redirect would answer in HTML
