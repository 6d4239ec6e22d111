"""`python -m omnigraph` is the executable `omnigraph`, for where that is not on the path."""

from omnigraph.cli.main import main

if __name__ == "__main__":
    main()
