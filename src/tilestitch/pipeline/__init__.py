"""The whole compiler: the stages in order, the search of the batch, the strategies, the checks."""
