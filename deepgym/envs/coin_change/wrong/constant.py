def coin_change(coins, amount):
    return -1
