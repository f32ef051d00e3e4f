"""After a failure what is open is taken for closed."""

MODULE = "strata.engine.runner"
FRAGMENT = "            self._step(Broke(self._num_acts))\n        while"
REPLACEMENT = "            self._state = first_state(self._recipe.plan)\n        while"
SOURCE = "lending.md 4, 8"
