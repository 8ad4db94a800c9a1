"""What an executor keeps an episode in: its tokens, budget and seeds. Pure, and used by `rollout` too."""
