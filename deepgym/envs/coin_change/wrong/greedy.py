def coin_change(coins, amount):
    used = 0
    for coin in sorted(coins, reverse=True):
        used += amount // coin
        amount %= coin
    return -1 if amount else used
