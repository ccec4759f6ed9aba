"""Starting points for the factors."""
