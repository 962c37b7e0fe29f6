"""A TrainJob becomes objects, and their status becomes its own."""
