"""Property tests draw the same examples every time (`PROFILE=explore`: new ones); every command can be interrupted."""

import os
import signal

from hypothesis import HealthCheck, settings

# A busy machine is slow, and that says nothing about what is tested.
calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
settings.register_profile("steady", derandomize=True, **calm)
settings.register_profile("explore", **calm)
settings.load_profile(os.environ.get("PROFILE", "steady"))

# A suite started in the background is deaf to Ctrl-C, and so would be every command it starts; some are ended that way.
signal.signal(signal.SIGINT, signal.default_int_handler)
