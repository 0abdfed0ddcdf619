"""Many machines at once: how networks run on each of them, kept in a database, and which machines nothing beats."""
