"""Applications with processors of their own."""
