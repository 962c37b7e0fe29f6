"""CEL, the language of validation rules: text to tree (`syntax`), tree to closures (`compiler`), and its functions."""
