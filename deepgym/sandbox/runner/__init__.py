"""The program that runs inside a jail: plain standard-library Python, no import of the rest of deepgym.

    host --frames--> zygote (bubblewrap) or __main__ (container) --> job: one supervisor per answer
                                                                     ├── calls: the answer's own interpreter
                                                                     └── programs: the answer's own processes

The supervisor is trusted, holds no expected output, and shares nothing with the answer but pipes.
"""
