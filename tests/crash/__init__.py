"""Writers that die: child processes killed at named places, and what the next open makes of it."""
