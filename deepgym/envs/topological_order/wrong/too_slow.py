def task_order(count, before):
    order = []
    left = list(range(count))
    while left:
        for task in left:
            if not any(b == task and a in left for a, b in before):
                order.append(task)
                left.remove(task)
                break
        else:
            return []
    return order
