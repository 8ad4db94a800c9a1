import sys

from pricing import total_price
from stock import Stock

stock = Stock()
for line in sys.stdin:
    words = line.split()
    if words[0] == "add":
        stock.add(words[1], int(words[2]), int(words[3]))
    elif words[0] == "order":
        wanted = {name: int(count) for name, count in (word.split("=") for word in words[1:])}
        missing = stock.missing(wanted)
        if missing:
            print("missing", *missing)
        else:
            print("paid", total_price(stock.take(wanted)))
    elif words[0] == "list":
        print(*stock.listing())
