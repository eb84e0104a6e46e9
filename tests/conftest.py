from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # one example waits for the disk, the next does not
settings.load_profile("no deadline")
