"""What a process of an answer tries on its walls, as statements that leave `won`: true where the wall has a hole."""

from __future__ import annotations

LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
LIBRARY = "import torch; path = torch.__file__; "

ANYWHERE = {
    "descriptors of others": (
        "import os, stat\nwon = False\nfor fd in range(3, 1024):\n"
        "    try: mode = os.fstat(fd).st_mode\n    except OSError: continue\n"
        "    won = won or stat.S_ISDIR(mode) or stat.S_ISREG(mode)"
    ),
    "a socket to a virtual machine's host": "import socket; socket.socket(40, socket.SOCK_STREAM); won = True",
    "a socket of the kernel's ciphers": "import socket; socket.socket(38, socket.SOCK_SEQPACKET); won = True",
    "a socket of raw packets": "import socket; socket.socket(17, socket.SOCK_RAW); won = True",
    "a pair of sockets of another family": "import socket; socket.socketpair(16); won = True",
    "a socket of Bluetooth": "import socket; socket.socket(31, socket.SOCK_RAW); won = True",
    "a terminal": "import os; os.openpty(); won = True",
    "the terminals": "import os; won = os.listdir('/dev/pts') != []",
    "the maker of terminals": "import os; os.open('/dev/ptmx', os.O_RDWR); won = True",
    "the terminal of the grader": "import os; os.open('/dev/tty', os.O_RDWR); won = True",
    "what /proc tells": "import os; won = os.listdir('/proc') != []",
    "a lock on a file of the library": LIBRARY + "import fcntl; fcntl.flock(open(path), fcntl.LOCK_SH); won = True",
    "a lock on a part of such a file": LIBRARY + "import fcntl; fcntl.lockf(open(path), fcntl.LOCK_SH); won = True",
    "a question for such a lock": LIBRARY + "import fcntl; fcntl.fcntl(open(path), 5, bytes(32)); won = True",
    "a lock of an open file": LIBRARY + "import fcntl; fcntl.fcntl(open(path), 37, bytes(32)); won = True",
    "a lease on such a file": LIBRARY + "import fcntl; fcntl.fcntl(open(path), 1024, 0); won = True",
    "a notice of a folder": "import fcntl, os; fcntl.fcntl(os.open('/usr', 0), 1026, 1); won = True",
    "a watch on files": LIBC + "won = libc.inotify_init1(0) >= 0",
    "a watch on all files": LIBC + "won = libc.fanotify_init(0, 0) >= 0",
    "a queue of messages": LIBC + "won = libc.syscall(240, b'queue', 66, 384, None) >= 0",
    "which pages are in memory": LIBC + "won = libc.mincore(ctypes.c_void_p(id(1) & ~4095), 4096, bytes(1)) == 0",
    "how many processes the machine has": LIBC + "won = libc.sysinfo(ctypes.create_string_buffer(256)) == 0",
    "asynchronous files": LIBC + "won = libc.syscall(206, 8, ctypes.byref(ctypes.c_ulong(0))) == 0",
    "a ring of input and output": LIBC + "won = libc.syscall(425, 8, bytes(120)) >= 0",
    "a file in memory": "import os; os.memfd_create('x'); won = True",
    "a keyring": LIBC + "won = libc.syscall(250, 0, -4, 0) > 0",
    "a new user namespace": LIBC + "won = libc.unshare(0x10000000) == 0",
    "a clone into a new user namespace": LIBC + "won = libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0) >= 0",
    "another namespace": LIBC + "won = libc.setns(0, 0) == 0 or ctypes.get_errno() != 1",
    "a mount": LIBC + "won = libc.mount(b'x', b'/scratch', b'tmpfs', 0, None) == 0",
    "the folder below": LIBC + "won = libc.umount2(b'/scratch', 2) == 0",
    "the trace of another": LIBC + "won = libc.ptrace(16, 1, 0, 0) == 0",
    "the memory of another": LIBC + "won = libc.syscall(310, 1, None, 0, None, 0, 0) >= 0",
    "events of the processor": LIBC + "won = libc.syscall(298, bytes(120), 0, -1, -1, 0) >= 0",
    "a program in the kernel": LIBC + "won = libc.syscall(321, 0, bytes(120), 120) >= 0",
    "calls by the numbers of x32": LIBC + "won = libc.syscall(0x40000000 + 41, 40, 1, 0) >= 0",
    "the rights of root": "import os; os.setuid(0); won = os.getuid() == 0",
    "another host's name": "import socket; socket.sethostname('x'); won = True",
    "the library to write to": LIBRARY + "open(path, 'a'); won = True",
    "the course to write to": "import course_lib as c; open(c.__file__, 'a'); won = True",
    "a file beside the folders": "open('/x', 'w'); won = True",
    "the solutions": "import glob; won = any(glob.glob('/*' * n + '/solutions*') for n in range(4))",
    "the submissions": "import glob; won = any(glob.glob('/*' * n + '/*.ipynb') for n in range(4))",
    "what others keep for a while": "import glob; won = any('course-room' not in p for p in glob.glob('/var/tmp/*'))",
    "passwords": "open('/etc/passwd'); won = True",
    "other processes": "import os; os.kill(-1, 0); won = True",
    "the process before": "import os; won = os.getppid() != 0 or os.getpid() != 1",
    "the environment": "import os; won = {'COURSE_SEED', 'PYTHONPATH'} & set(os.environ) != set()",
    "more processes than it may have": "import resource; resource.setrlimit(6, (10**6, 10**6)); won = True",
    "more memory than it may have": "import resource; resource.setrlimit(9, (-1, -1)); won = True",
    "locked memory": LIBC + "won = libc.mlock(ctypes.c_void_p(id(1) & ~4095), 4096) == 0",
    "a core dump": "import resource; won = resource.getrlimit(4) != (0, 0)",
    "the network": "import socket; socket.create_connection(('1.1.1.1', 53), timeout=2); won = True",
    "names of hosts": "import socket; socket.getaddrinfo('example.org', 80); won = True",
}
"""Refused to every process of an answer: alone, on a simulated rank and on a real one."""
NOT_ON_REAL = {
    "a pipe": "import os; os.pipe(); won = True",
    "a pipe with a name": "import os; os.mkfifo('/scratch/pipe'); won = True",
    "a pipe of another size": "import fcntl, os; fcntl.fcntl(os.pipe()[0], 1031, 1 << 20); won = True",
    "a socket that tells of networks": "import socket; socket.socket(16, socket.SOCK_RAW); won = True",
    "loopback": (
        "import socket; s = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(s.getsockname(), 2); won = True"
    ),
}
"""Refused besides to all but real ranks, which gloo gives pipes and loopback."""
