def run_cache(capacity, operations):
    cache, given = {}, []
    for operation in operations:
        if operation[0] == "size":
            given.append(len(cache))
        elif operation[0] == "get":
            given.append(cache.get(operation[1]))
        else:
            cache[operation[1]] = operation[2]
            if len(cache) > capacity:
                del cache[next(iter(cache))]
    return given
