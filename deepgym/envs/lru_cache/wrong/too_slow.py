def run_cache(capacity, operations):
    keys, values, given = [], [], []
    for operation in operations:
        if operation[0] == "size":
            given.append(len(keys))
            continue
        place = -1
        for i in range(len(keys)):
            if keys[i] == operation[1]:
                place = i
        if operation[0] == "get":
            given.append(values[place] if place >= 0 else None)
            if place < 0:
                continue
        value = operation[2] if operation[0] == "put" else values[place]
        if place >= 0:
            del keys[place], values[place]
        keys.append(operation[1])
        values.append(value)
        if len(keys) > capacity:
            del keys[0], values[0]
    return given
