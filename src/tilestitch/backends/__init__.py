"""Schedules as programs that run elsewhere: one package for each language that is written."""
