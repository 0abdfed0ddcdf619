"""Programs for the interfaces of others, as text."""
