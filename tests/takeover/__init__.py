"""A writer that is held anywhere in its work while another one takes its turn, finishes, and is told so."""
