"""What a run writes down: metrics, events, stored rollouts, and the picture of its reward."""
