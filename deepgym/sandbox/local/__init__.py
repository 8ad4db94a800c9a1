"""The local backend: bubblewrap jails on this machine, one per slot."""
