"""A refused transfer counts as one that took place."""

MODULE = "strata.engine.runner"
FRAGMENT = """\
            self._device.submit((transfer,))
            self._num_transfers += 1"""
REPLACEMENT = """\
            self._num_transfers += 1
            self._device.submit((transfer,))"""
SOURCE = "cases A6"
