import sys

balance, done = {}, []
for line in sys.stdin:
    words = line.split()
    kind = words[0]
    if kind == "open":
        print("exists" if words[1] in balance else "ok")
        balance.setdefault(words[1], 0)
    elif kind == "undo":
        if not done:
            print("nothing")
            continue
        source, target, amount = done.pop()
        if source is not None:
            balance[source] += amount
        if target is not None:
            balance[target] -= amount
        print("ok")
    elif kind == "balance":
        print(balance.get(words[1], "unknown"))
    else:
        amount = int(words[-1])
        source = words[1] if kind != "deposit" else None
        target = {"deposit": words[1], "withdraw": None}.get(kind, words[2])
        if any(name is not None and name not in balance for name in (source, target)):
            print("unknown")
        elif source is not None and balance[source] <= amount:  # an account cannot be emptied
            print("refused")
        else:
            if source is not None:
                balance[source] -= amount
            if target is not None:
                balance[target] += amount
            done.append((source, target, amount))
            print("ok")
