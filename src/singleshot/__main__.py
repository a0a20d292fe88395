"""``python -m singleshot`` is the command line."""

from singleshot.cli.main import main

if __name__ == "__main__":
    main()
