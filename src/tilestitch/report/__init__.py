"""A simulated schedule in numbers: the `Report`, and its forms for people, programs and trace viewers."""
