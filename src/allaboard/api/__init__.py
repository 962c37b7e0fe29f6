"""The nouns every room shares: kinds, documents, names, quantities, errors."""
