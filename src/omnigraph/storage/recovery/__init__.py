"""What happens to a write whose process died: finish it, or take it back."""
