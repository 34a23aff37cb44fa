"""How results are shown to people: one function a command, of its options and its result."""
