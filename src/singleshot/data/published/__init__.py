"""What publishers offer: checksums, downloads, archives, and the check that a copy is complete."""
