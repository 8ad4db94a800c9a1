print("error at line 1")
