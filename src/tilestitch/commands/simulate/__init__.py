"""The command simulate: mapped layers simulated cycle by cycle, as text, JSON and traces."""
