"""Two reports of one network side by side: what is faster, where the bytes went, what was decided differently."""
