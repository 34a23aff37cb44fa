"""What a step costs, what has been spent, by whom."""
