"""Published datasets: downloads and verification."""
