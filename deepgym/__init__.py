"""Reserved for verifiable environments, a sandbox and a reward endpoint; nothing is in it yet."""
