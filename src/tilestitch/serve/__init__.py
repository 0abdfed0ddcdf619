"""The page on which somebody changes a schedule by hand and sees what it costs; it is served to this computer alone.

The page itself is written in TypeScript, in web/ of the repository; `make page` puts it beside this file.
"""
