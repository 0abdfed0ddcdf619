"""`python -m tilestitch` is the command `tilestitch`."""

from tilestitch.cli.start import main

if __name__ == "__main__":
    main()
