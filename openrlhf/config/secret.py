"""What no message and no file may show."""

import re

SECRETS = ("logger.wandb.key", "endpoint.key")
_LOGIN = re.compile(r"((?:https?|ftp)://)[^\s,]*@", re.IGNORECASE)


def without_login(text: str) -> str:
    """A text whose addresses keep no user name and password: `http://user:pw@host` becomes `http://***@host`."""
    return _LOGIN.sub(r"\1***@", text)
