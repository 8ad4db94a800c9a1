def bracket_error(text):
    return -1
