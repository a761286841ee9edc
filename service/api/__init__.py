"""Routes and schemas, one file a noun."""
