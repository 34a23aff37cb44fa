"""`python -m labeldp`."""

from labeldp.cli import main

if __name__ == "__main__":
    main()
