"""What each command does, as values; nothing here prints."""
