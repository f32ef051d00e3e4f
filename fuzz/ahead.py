"""What processes with planted bugs are forked from: everything is imported, and has done nothing yet."""

from fuzz.plant import import_ahead

import_ahead()
