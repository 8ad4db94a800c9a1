"""What the kernel's control group of a container tells about it, in both versions of the interface."""

# Version 2, version 1: inside a container, each shows the container's own group.
_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def out_of_memory_kills() -> int:
    """Processes that the kernel has killed because the group was full; 0 where no group is shown."""
    for path in _EVENTS:
        try:
            with open(path, encoding="ascii") as file:
                pairs = (line.split() for line in file)
                return sum(int(pair[1]) for pair in pairs if pair[0] == "oom_kill")
        except FileNotFoundError:
            continue
    return 0
