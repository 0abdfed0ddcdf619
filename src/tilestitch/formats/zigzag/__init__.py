"""ZigZag's accelerators, layers and mappings."""
