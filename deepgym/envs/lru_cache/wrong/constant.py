def run_cache(capacity, operations):
    return [None for operation in operations if operation[0] != "put"]
