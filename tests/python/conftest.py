import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
if not os.environ.get("ATTUNE_INSTALLED"):  # else the package that pip installed is what is tested
    sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
