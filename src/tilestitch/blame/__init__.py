"""Why a program takes longer than its bound: what each engine waited for, and the gap as a sum of named parts."""
