"""From a schedule to a program: addresses, copies, compute instructions, and the waits that keep them in order."""
