"""What somebody who just cloned the repository does."""
