"""veloc.revolve in place of the package pyrevolve, for that package's own tests."""

import pkgutil

from veloc.revolve import *  # noqa: F403

# Its tests of compression, which veloc.revolve has nothing in place of, use its own modules.
__path__ = pkgutil.extend_path(__path__, __name__)
