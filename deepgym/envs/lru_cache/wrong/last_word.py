from collections import OrderedDict


def run_cache(capacity, operations):
    cache = OrderedDict()
    given = []
    for operation in operations:
        if operation[-1] == "size":
            given.append(len(cache))
        elif operation[0] == "get":
            if operation[1] in cache:
                cache.move_to_end(operation[1])
            given.append(cache.get(operation[1]))
        else:
            cache[operation[1]] = operation[2]
            cache.move_to_end(operation[1])
            if len(cache) > capacity:
                cache.popitem(last=False)
    return given
