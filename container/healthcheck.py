"""HEALTHCHECK of the images: exit 0 while the server on STRATA_PORT answers /health, else 1. Standard library only."""

import os
import sys
import urllib.error
import urllib.request


def main() -> int:
    url = f"http://127.0.0.1:{os.environ.get('STRATA_PORT', '8080')}/health"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never ask a proxy about ourselves
    try:
        with opener.open(url, timeout=5) as response:
            return 0 if response.status == 200 else 1
    except (urllib.error.URLError, OSError) as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
