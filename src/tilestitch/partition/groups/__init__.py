"""TVM's groups of operators, and every operator alone."""
