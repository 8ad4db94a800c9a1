import re


def evaluate(text):
    # Python's floor division rounds towards minus infinity, and its numbers must not start with 0.
    source = re.sub(r"\d+", lambda number: str(int(number.group())), text.replace("/", "//"))
    try:
        return eval(source)
    except ZeroDivisionError:
        return None
