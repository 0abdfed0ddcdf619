"""The command map: nests and machines from whatever names them, and their mappings as text, JSON and files."""
