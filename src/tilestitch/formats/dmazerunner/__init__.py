"""dMazeRunner's machines, layers and mappings."""
