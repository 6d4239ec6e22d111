"""The two engines against each other: the same input gives the same rows, errors and answers."""
