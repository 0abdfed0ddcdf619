"""From a loop nest to the mapping that runs it best on an array of processing elements."""
