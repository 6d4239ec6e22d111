"""The real commit protocol on a simulated store, under every schedule that a bound allows."""
