"""The machine: values, the time of one tile on one unit, the YAML reader and the presets."""
