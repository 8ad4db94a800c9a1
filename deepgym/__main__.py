"""`python -m deepgym` is the command `deepgym`."""

from deepgym.cli.main import entry

if __name__ == "__main__":
    entry()
