"""The reproduction of the paper: published numbers, methods, tables, figures, and its own protocols."""
