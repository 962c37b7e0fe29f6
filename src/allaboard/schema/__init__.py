"""What a document may be: structural schemas and CEL rules, compiled once per kind."""
