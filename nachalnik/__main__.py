"""`python -m nachalnik`: the command line, as `nachalnik` itself."""

from nachalnik.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
