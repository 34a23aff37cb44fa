"""One noisy statistic: what the label owner computes from all labels at once, adds noise to once, and hands over."""
