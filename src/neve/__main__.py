"""`python -m neve`."""

from __future__ import annotations

from neve.cli.app import main

if __name__ == "__main__":
    main()
