"""The page of a run: one HTML file that holds the program, its trace and the report, and draws them.

The page itself is written in TypeScript, in web/ of the repository; `make page` puts it beside this file.
"""
