"""Back ends: what they write."""
