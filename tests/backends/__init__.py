"""Back ends: what they write, as text."""
