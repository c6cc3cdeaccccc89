"""Speed and memory beside the references: `make bench`."""
