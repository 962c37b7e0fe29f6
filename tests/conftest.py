"""Property tests draw the same examples every time; `PROFILE=explore` draws new ones."""

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("PROFILE", "steady"))
