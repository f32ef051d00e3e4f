"""Recurrent state follows all rows of a window, those not accepted too."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "taken_rows=len(token_ids), table_version=version)"
REPLACEMENT = "taken_rows=state.rows, table_version=version)"
SOURCE = "models.md 2.6, rollback: the state is what it was behind the last accepted token"
