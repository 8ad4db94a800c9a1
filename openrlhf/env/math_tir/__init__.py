"""Mathematics with tool-integrated reasoning: the policy writes Python, sees what it prints, and goes on."""
