"""Published datasets: checksums, downloads, archives and verification."""
