def coin_change(coins, amount):
    if amount == 0:
        return 0
    best = -1
    for coin in coins:
        if coin <= amount:
            rest = coin_change(coins, amount - coin)
            if rest >= 0 and (best < 0 or rest + 1 < best):
                best = rest + 1
    return best
