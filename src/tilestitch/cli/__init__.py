"""The command `tilestitch`: arguments in, text and files out."""
