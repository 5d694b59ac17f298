"""The JSON operations of document 003, each one use case."""
