def task_order(count, before):
    followers = [[] for _ in range(count)]
    waits = [0] * count
    for a, b in before:
        followers[a].append(b)
        waits[b] += 1
    ready = [task for task in range(count) if waits[task] == 0]
    order = []
    while ready:
        task = ready.pop()
        order.append(task)
        for follower in followers[task]:
            waits[follower] -= 1
            if waits[follower] == 0:
                ready.append(follower)
    return [task + 1 for task in order] if len(order) == count else []  # tasks count from 1
