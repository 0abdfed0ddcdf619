"""What every other part may use: errors, units, element types, progress, compiled code, interruption, text files."""
