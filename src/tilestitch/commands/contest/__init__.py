"""The MLSys 2026 graph-scheduling contest: instances, rules, and a solver with a lower bound (docs/contest.md)."""
