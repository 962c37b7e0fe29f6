"""The machine as it is, and what we ask of it."""

import os
import subprocess
import sys

ASK = """
import resource
from allaboard.node import machine
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
machine.allow_files()
wanted = machine.FILES if hard == resource.RLIM_INFINITY else min(hard, machine.FILES)
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (wanted, hard))
"""


def test_hundreds_of_pods_find_descriptors_enough():
    said = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True, env=os.environ)
    assert said.stdout == "True\n"
