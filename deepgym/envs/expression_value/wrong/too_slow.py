import re


def evaluate(text):
    def quotient(left, right):
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)

    tokens = [int(token) if token.isdigit() else token for token in re.findall(r"\d+|[-+*/()]", text)]
    try:
        while len(tokens) > 1:
            # The whole list is searched again for every single operation.
            opening = 0
            closing = len(tokens)
            for i in range(len(tokens)):
                if tokens[i] == ")" and closing == len(tokens):
                    closing = i
            for i in range(closing):
                if tokens[i] == "(":
                    opening = i + 1
            part = tokens[opening:closing]
            place = None
            for operators in ("-", "*/", "+-"):
                for i in range(len(part) - 1):
                    if place is None and isinstance(part[i], str) and part[i] in operators:
                        unary = i == 0 or isinstance(part[i - 1], str)
                        if unary == (operators == "-") and isinstance(part[i + 1], int):
                            place = i
            if place is None:
                tokens[opening - 1 : closing + 1] = part
            elif place == 0 or isinstance(part[place - 1], str):
                tokens[opening + place : opening + place + 2] = [-part[place + 1]]
            else:
                left, sign, right = part[place - 1 : place + 2]
                value = {"+": left + right, "-": left - right, "*": left * right}.get(sign)
                value = quotient(left, right) if sign == "/" else value
                tokens[opening + place - 1 : opening + place + 2] = [value]
    except ZeroDivisionError:
        return None
    return tokens[0]
