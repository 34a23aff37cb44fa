"""Private selection of hyper-parameters: the owner's side, central trust."""
