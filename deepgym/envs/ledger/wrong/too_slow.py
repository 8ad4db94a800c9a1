import sys

opened, done = [], []


def balance(name):
    total = 0
    for source, target, amount in done:  # every booking is added up again
        if source == name:
            total -= amount
        if target == name:
            total += amount
    return total


for line in sys.stdin:
    words = line.split()
    kind = words[0]
    if kind == "open":
        print("exists" if words[1] in opened else "ok")
        if words[1] not in opened:
            opened.append(words[1])
    elif kind == "undo":
        print("ok" if done else "nothing")
        if done:
            done.pop()
    elif kind == "balance":
        print(balance(words[1]) if words[1] in opened else "unknown")
    else:
        amount = int(words[-1])
        source = words[1] if kind != "deposit" else None
        target = {"deposit": words[1], "withdraw": None}.get(kind, words[2])
        if any(name is not None and name not in opened for name in (source, target)):
            print("unknown")
        elif source is not None and balance(source) < amount:
            print("refused")
        else:
            done.append((source, target, amount))
            print("ok")
