"""The walls of a jail, each of which the attack suite takes away once to see that it is the one that holds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Defences:
    """All on, always, but in tests. No command, flag or HTTP field reaches this record.

    Those that a container's engine provides (`no_network`, `hidden_host`, `private_disk`, `private_processes`,
    `no_capabilities`) have no effect in the runner there.
    """

    seccomp: bool = True  # the system call filter
    rlimits: bool = True  # limits the kernel keeps by itself: CPU, data, files, file size, processes, core dumps
    watchdog: bool = True  # sampling of the whole tree: CPU, memory, idling
    hidden_supervisor: bool = True  # not readable in /proc, not traceable, not shown
    no_capabilities: bool = True
    private_disk: bool = True  # a new, bounded file system for each answer
    private_processes: bool = True  # a PID namespace for each answer: sees nobody, outlives nothing, cannot signal us
    no_network: bool = True  # local: a network namespace without a way out
    hidden_host: bool = True  # local: of the host's files only the system's programs and libraries are there
    empty_environment: bool = True  # local: none of the service's environment variables
