"""The strategy `best`: schedules of all strategies, improved by moves that simulation judges."""
