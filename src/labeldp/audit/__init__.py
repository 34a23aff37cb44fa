"""How much does a trained model give away? Numpy only: the label owner runs it."""
