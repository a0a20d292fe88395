"""What every layer uses: argument checks, atomic files, printable text, the environment."""
