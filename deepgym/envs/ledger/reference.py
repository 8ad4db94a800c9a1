import sys

balance, done = {}, []
out = []
for line in sys.stdin:
    words = line.split()
    if not words:
        continue
    kind = words[0]
    if kind == "open":
        out.append("exists" if words[1] in balance else "ok")
        balance.setdefault(words[1], 0)
    elif kind == "undo":
        if not done:
            out.append("nothing")
            continue
        source, target, amount = done.pop()
        if source is not None:
            balance[source] += amount
        if target is not None:
            balance[target] -= amount
        out.append("ok")
    elif kind == "balance":
        out.append(str(balance.get(words[1], "unknown")))
    else:
        amount = int(words[-1])
        source = words[1] if kind != "deposit" else None
        target = {"deposit": words[1], "withdraw": None}.get(kind, words[2])
        if any(name is not None and name not in balance for name in (source, target)):
            out.append("unknown")
        elif source is not None and balance[source] < amount:
            out.append("refused")
        else:
            if source is not None:
                balance[source] -= amount
            if target is not None:
                balance[target] += amount
            done.append((source, target, amount))
            out.append("ok")
print("\n".join(out))
