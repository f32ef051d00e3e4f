"""A refused transfer counts as one that took place."""

MODULE = "strata.engine.runner"
FRAGMENT = "                self._device.submit((act,))\n                self._num_acts += 1"
REPLACEMENT = "                self._num_acts += 1\n                self._device.submit((act,))"
SOURCE = "cases A6"
