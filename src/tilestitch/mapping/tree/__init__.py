"""The exact mapper of loop nests on machine trees: mappings are chains of cuts, searched with labels."""
