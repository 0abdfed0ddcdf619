"""Values as text that reads back as the same values: JSON documents, a row a line, the same to the byte each time."""
