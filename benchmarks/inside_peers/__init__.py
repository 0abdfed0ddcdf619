"""What runs in the environments of other programs: neither imports anything of this project."""
