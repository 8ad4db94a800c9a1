def task_order(count, before):
    return []
