import re


def evaluate(text):
    values, operators = [], []
    binding = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "(": 0}

    def apply():
        operator = operators.pop()
        right = values.pop()
        if operator == "neg":
            values.append(-right)
            return
        left = values.pop()
        if operator == "+":
            values.append(left + right)
        elif operator == "-":
            values.append(left - right)
        elif operator == "*":
            values.append(left * right)
        else:
            quotient = abs(left) // abs(right)
            values.append(quotient if (left < 0) == (right < 0) else -quotient)

    expect_value = False
    try:
        for token in re.findall(r"\d+|[-+*/()]", text):
            if token.isdigit():
                values.append(int(token))
                expect_value = False
            elif token == "(":
                operators.append(token)
                expect_value = True
            elif token == ")":
                while operators[-1] != "(":
                    apply()
                operators.pop()
                expect_value = False
            elif expect_value:
                operators.append("neg")
            else:
                while operators and binding[operators[-1]] >= binding[token]:
                    apply()
                operators.append(token)
                expect_value = True
        while operators:
            apply()
    except ZeroDivisionError:
        return None
    return values[0]
