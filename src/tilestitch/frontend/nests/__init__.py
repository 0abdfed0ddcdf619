"""Loop nests and their mappings from the files of other programs and from one line of text, one format a file."""
