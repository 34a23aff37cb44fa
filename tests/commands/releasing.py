"""`labeldp.commands.release`, one file's labels into another, with the same options again and again."""

from labeldp.commands import ReleaseOptions, release


def release_file(labels, out, options):
    return release(ReleaseOptions(labels=labels, out=out, **options))
