def task_order(count, before):
    return list(range(count))
