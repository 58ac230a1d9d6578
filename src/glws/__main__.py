"""`python -m glws` is `glws`."""

from glws.cli import main

if __name__ == "__main__":
    main()
