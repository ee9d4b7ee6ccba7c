"""Says which cell makes a missing name also in a kernel that has not imported the course: make lab's PYTHONSTARTUP."""


def _told(shell, *error, **more):
    from course_lib import short_errors  # not above: it takes seconds, and most kernels import it soon enough

    short_errors.install()
    shell.CustomTB(*error, **more)


if "get_ipython" in globals():  # a terminal's Python reads this file, too
    get_ipython().set_custom_exc((NameError,), _told)  # noqa: F821
del _told
