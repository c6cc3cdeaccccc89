"""Speed, equality with the references and one-off studies; README.md has the table."""
