"""Attacks on the grader, each a cell of the exercise `total` (2 points) or `double` (1): all are worth nothing.

A submission's other cell is right, so it earns that cell's points and no more.
"""

from __future__ import annotations

import os

LEFT_BEHIND = f"left behind by a test of process {os.getpid()}"
"""What a process that an attack leaves behind has in its command line."""
DEADLY = ("kills all around it", "ends the process it came from")
"""Attacks of DOUBLE that must never run outside a sandbox; none of TOTAL may."""
LAZY = "\ndef total(dist, mine):\n    return mine\n"
"""Neither a message nor a sum: what is left of `total` when the attack before it does not work."""


def on_rank(body: str) -> str:
    """Return a `total` that does `body` on each rank and returns its own input."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return f"import os, sys\n\ndef total(dist, mine):\n{lines}    return mine\n"


TOTAL = {
    # the checker
    "redefines the check": "def check_total(*answers):\n    print('✓ total   2 of 2 points')\n" + LAZY,
    "patches expect": "import exercises_tests.judging as here\nhere.expect = lambda *words, **more: None\n" + LAZY,
    "patches the chapter's check": (
        "import exercises_tests.ch97_attacked as here\nhere.expect = lambda *words: None\n"
        "here.check_total = lambda answer: None\n" + LAZY
    ),
    "patches Outcome": (
        "from exercises_tests.judging import Outcome\nOutcome.earned = property(lambda self: 99)\n" + LAZY
    ),
    "patches torch.equal": "torch.equal = lambda *two: True\ntorch.Tensor.__eq__ = lambda *two: True\n" + LAZY,
    "says it is borrowed and right": LAZY + "total.__borrowed__ = False\ntotal.outcome = lambda *answers: None\n",
    "prints the line of a right answer": on_rank("print('✓ total   sums          2 of 2 points')"),
    "reads the wanted value from the caller": on_rank(
        "frame = sys._getframe()\n"
        "while frame:\n"
        "    for name in ('want', 'numbers'):\n"
        "        if name in frame.f_locals: return frame.f_locals[name]\n"
        "    frame = frame.f_back"
    ),
    "sums what gc finds": on_rank(
        "import gc\n"
        "found = [t for t in gc.get_objects() if isinstance(t, torch.Tensor) and t.shape == mine.shape]\n"
        "return sum(found[1:], found[0].clone())"
    ),
    "guesses the seed": on_rank(
        "os.environ.setdefault('COURSE_SEED', '0')\n"
        "from exercises_tests.values import integers\n"
        "return sum(integers(dist.get_world_size(), (4,)))"
    ),
    "returns an object that equals everything": (
        "class Yes(torch.Tensor):\n    def __eq__(self, other): return True\n"
        "def total(dist, mine):\n    return mine.as_subclass(Yes)\n"
    ),
    "returns NaN": on_rank("return mine * float('nan')"),
    # the kernel
    "silences tracebacks": "get_ipython().showtraceback = lambda *words, **more: None\n" + LAZY,
    "exits quietly": on_rank("os._exit(0)"),
    "exits while the cell runs": "import os\nos._exit(0)\n",
    "raises SystemExit": on_rank("raise SystemExit(0)"),
    "asks nbval to skip": "# NBVAL_SKIP\n# NBVAL_IGNORE_OUTPUT\n" + LAZY,
    # modules
    "imports the solutions": "from solutions.ch97_attacked import total\n",
    "looks for the solutions": on_rank(
        "import pathlib\n"
        "for top in ('/', os.getcwd(), sys.prefix, os.environ.get('PWD', '/')):\n"
        "    for path in pathlib.Path(top).glob('*/solutions/ch97*.py'):\n"
        "        space = {}\n"
        "        exec(path.read_text(), space)\n"
        "        return space['total'](dist, mine)"
    ),
    "patches the simulator": (
        "import course_lib.engine.simulated.clock as clock, course_lib.events as events\n"
        "clock.Clock.post = lambda self, posting: posting\nevents.Event.sent = 32\n" + LAZY
    ),
    "patches the rank's dist": on_rank(
        "type(dist)._ask = lambda *words: {'value': None, 'tensors': []}\ndist.isend(mine, 1 - dist.get_rank() % 2)"
    ),
    "patches what is sent back": (
        "from course_lib.engine import outcome, plain\n"
        "outcome.pack = lambda ended, packs: plain.pack(('Returned', {'value': b''}))\n" + LAZY
    ),
    # data past dist: the ranks send zeros of the right size and meet elsewhere
    "ranks meet in a file": on_rank(
        "import time\n"
        "me, ranks = dist.get_rank(), dist.get_world_size()\n"
        "torch.save(mine, f'/tmp/{me}.tmp'); os.rename(f'/tmp/{me}.tmp', f'/tmp/{me}')\n"
        "dist.barrier()\n"
        "zeros = torch.zeros_like(mine)\n"
        "for other in range(ranks):\n"
        "    if other != me:\n"
        "        h = dist.isend(zeros, other); dist.recv(torch.empty_like(mine), other); h.wait()\n"
        "return sum(torch.load(f'/tmp/{other}') for other in range(ranks))"
    ),
    "ranks meet in shared memory": on_rank(
        "from multiprocessing import shared_memory\n"
        "me = dist.get_rank()\n"
        "open(f'/dev/shm/{me}', 'w').write(repr(mine.tolist()))\n"
        "dist.barrier()\n"
        "return sum(torch.tensor(eval(open(f'/dev/shm/{other}').read())) for other in range(dist.get_world_size()))"
    ),
    "ranks meet at an abstract socket": on_rank(
        "import socket, time\n"
        "me = dist.get_rank()\n"
        "listener = socket.socket(socket.AF_UNIX); listener.bind(f'\\0meet{me}'); listener.listen()\n"
        "dist.barrier()\n"
        "for other in range(dist.get_world_size()):\n"
        "    if other != me:\n"
        "        socket.socket(socket.AF_UNIX).connect(f'\\0meet{other}')\n"
        "        return mine * 0"
    ),
    "ranks meet on loopback": on_rank(
        "import socket\n"
        "me = dist.get_rank()\n"
        "listener = socket.create_server(('127.0.0.1', 40000 + me))\n"
        "dist.barrier()\n"
        "socket.create_connection(('127.0.0.1', 40000 + (me + 1) % dist.get_world_size()), timeout=1)\n"
        "return mine * 0"
    ),
    "ranks meet under their folders": on_rank(
        "import ctypes\n"
        "assert ctypes.CDLL(None).umount2(b'/scratch', 2) == 0\n"
        "open(f'/scratch/{dist.get_rank()}', 'w').write(repr(mine.tolist()))\n"
        "dist.barrier()\n"
        "return sum(torch.tensor(eval(open(f'/scratch/{other}').read())) for other in range(dist.get_world_size()))"
    ),
    "ranks meet with new rights": on_rank(
        "import ctypes\n"
        "assert ctypes.CDLL(None).unshare(0x10000000) == 0, 'no new user namespace'\n"
        "return mine"
    ),
    "ranks meet at a keyring": on_rank(
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "numbers = mine.numpy().tobytes()\n"
        "assert libc.syscall(248, b'user', b'%d' % dist.get_rank(), numbers, len(numbers), -4) > 0, 'no keyring'\n"
        "return mine"
    ),
    "reads a neighbour's memory": on_rank(
        "others = [pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != os.getpid()]\n"
        "dist.barrier()\n"
        "return open(f'/proc/{others[0]}/mem', 'rb').read(4)"
    ),
    "remembers the last run": on_rank(
        "import torch.distributed as keep\n"
        "keep.seen = getattr(keep, 'seen', 0) + 1\n"
        "open('/tmp/seen', 'a').write('x')\n"
        "assert os.path.getsize('/tmp/seen') > 1, 'nothing is left of the last run'"
    ),
    # processes
    "kills everybody": on_rank("import signal\nos.kill(-1, signal.SIGKILL)"),
    "kills its parents": on_rank(
        "import signal\n"
        "for pid in (os.getppid(), 1):\n"
        "    try: os.kill(pid, signal.SIGKILL)\n"
        "    except OSError: pass"
    ),
    "leaves a process behind": on_rank(
        "import subprocess\n"
        f"words = [sys.executable, '-c', 'import time; time.sleep(1000)  # {LEFT_BEHIND}']\n"
        "subprocess.Popen(words, start_new_session=True)"
    ),
    "forks without end": on_rank(
        "while True:\n"
        "    try: os.fork()\n"
        "    except OSError: pass"
    ),
    "counts the processes it may have": on_rank(
        "import threading, time\n"
        "threads = [threading.Thread(target=time.sleep, args=(1000,)) for _ in range(10_000)]\n"
        "for count, thread in enumerate(threads):  # they count as processes do, and start faster than forks\n"
        "    try: thread.start()\n"
        "    except RuntimeError: raise ValueError(f'{count} processes')"
    ),
    "starts threads without end": on_rank(
        "import threading, time\n"
        "while True: threading.Thread(target=time.sleep, args=(1000,)).start()"
    ),
    # files
    "writes over the course": on_rank(
        "import course_lib, pathlib\n"
        "pathlib.Path(course_lib.__file__).with_name('notebook.py').write_text('')"
    ),
    "fills the disk": on_rank(
        "with open('/tmp/big', 'wb') as file:\n"
        "    while True: file.write(bytes(1 << 24))"
    ),
    # resources
    "loops": on_rank("while True: pass"),
    "swallows the interrupt": on_rank(
        "import signal\n"
        "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1): signal.signal(number, signal.SIG_IGN)\n"
        "while True:\n"
        "    try:\n"
        "        while True: pass\n"
        "    except BaseException: pass"
    ),
    "sleeps": on_rank("import time\ntime.sleep(10 ** 6)"),
    "loops, and yields the processor": on_rank("import time\nwhile True: time.sleep(0.001)"),
    "loops in a process of its own": on_rank("if os.fork(): os.wait()\nwhile True: pass"),
    "loops for ever in few": on_rank("while dist.get_rank() == 0: pass"),
    "eats memory": on_rank("kept = []\nwhile True: kept.append(torch.ones(1 << 26))"),
    "returns a gigabyte": on_rank("return torch.ones(1 << 28)"),
    "prints without end": on_rank("while True: print('x' * 1_000_000)"),
    "eats memory in many processes": on_rank(
        "for child in range(4):\n"
        "    if not os.fork():\n"
        "        import time\n"
        "        kept = torch.ones(1 << 28)\n"
        "        time.sleep(1000)\n"
        "while True: os.wait()"
    ),
    "takes memory that belongs to no process": on_rank(
        "kept = [os.memfd_create('kept') for file in range(100)]\n"
        "for file in kept: os.write(file, bytes(1 << 25))"
    ),
    "holds the judge's memory": on_rank(
        "big = torch.zeros(1 << 22)\n"
        "kept = [dist.isend(big, (dist.get_rank() + 1) % dist.get_world_size()) for message in range(10_000)]"
    ),
    "sends a list that has no end": on_rank(
        "import functools\n"
        "endless = functools.reduce(lambda inner, turn: [inner, inner], range(60), [])\n"
        "type(dist)._encode = lambda dist, thing: thing\n"
        "dist._ask('send', (endless, 1), {})"
    ),
    "returns a list that holds itself": on_rank("endless = []\nendless.append(endless)\nreturn endless"),
    "returns a number of a million digits": on_rank("return 10 ** 1_000_000"),
    "fills the judge with its stack": on_rank(
        "for fd in range(3, 64):\n"
        "    try:\n"
        "        while os.write(fd, b'x' * (1 << 20)): pass\n"
        "    except OSError: pass"
    ),
    "recurses": on_rank("return total(dist, mine)"),
    "posts without end": on_rank("while True: dist.isend(mine, 1 - min(1, dist.get_rank()))"),
    # the protocol
    "writes into its link": on_rank(
        "for fd in range(3, 64):\n"
        "    try: os.write(fd, b'garbage' * 1000)\n"
        "    except OSError: pass"
    ),
    "announces a huge message": on_rank(
        "import struct\n"
        "for fd in range(3, 64):\n"
        "    try: os.write(fd, struct.pack('!cQ', b'D', 1 << 60))\n"
        "    except OSError: pass"
    ),
    "forges its own end": on_rank(
        "import pickle, struct\n"
        "body = pickle.dumps({'value': pickle.dumps([1, 2]), 'bytes': 32})\n"
        "for fd in range(3, 64):\n"
        "    try: os.write(fd, struct.pack('!cQ', b'D', len(body)) + body)\n"
        "    except OSError: pass"
    ),
    "sends a pickle that runs code": on_rank(
        "class Bomb:\n"
        "    def __reduce__(self): return os.system, ('touch /tmp/pwned /var/tmp/pwned',)\n"
        "return Bomb()"
    ),
    "asks for what dist does not have": on_rank(
        "for name in ('_serve', 'engine', '__class__', 'broadcast_object_list', 'events', 'meetings'):\n"
        "    try: dist._ask(name, ([1, 2],), {})\n"
        "    except AttributeError: pass\n"
        "dist._ask('wait', (5, []), {})"
    ),
    "claims lines of files it cannot read": on_rank(
        "exec(compile('\\n' * 0 + 'raise ValueError(1)', '/etc/passwd', 'exec'))"
    ),
    # the grade book
    "raises markup": on_rank("raise ValueError('<script>alert(1)</script><img src=x onerror=alert(1)>')"),
    "raises a formula": on_rank("raise ValueError('=cmd|\\' /C calc\\'!A0')"),
}

DOUBLE = {
    "doubles by an object": (
        "class Yes(list):\n    def __eq__(self, other): return True\ndef double(numbers):\n    return Yes([0, 0])\n"
    ),
    "changes its input": (
        "def double(numbers):\n    numbers[:] = [0, 0]\n    return numbers\n"
    ),
    "returns code": (
        "import os\nclass Bomb:\n    def __reduce__(self): return os._exit, (0,)\n"
        "def double(numbers):\n    return Bomb()\n"
    ),
    "never returns": "def double(numbers):\n    while True: pass\n",
    "never wakes up": "import time\ndef double(numbers):\n    time.sleep(10 ** 6)\n",
    # what one call leaves for the next
    "remembers its calls": (
        "import torch.distributed as keep\nkeep.seen = getattr(keep, 'seen', [])\ndef double(numbers):\n"
        "    keep.seen.append(numbers)\n    open('/tmp/seen', 'a').write('x')\n"
        "    assert len(keep.seen) > 1 or len(open('/tmp/seen').read()) > 1, 'nothing is left of the last call'\n"
    ),
    "answers for a later call": (
        "import os, pickle, struct, time\ndef double(numbers):\n    if os.fork(): return numbers\n"
        "    os.setsid()\n    while True:\n        time.sleep(0.01)\n        for fd in range(3, 64):\n"
        "            try: os.write(fd, struct.pack('!cQ', b'D', 1) + b'.')\n            except OSError: pass\n"
    ),
    "leaves a double to import": (
        "import sys\nopen('/tmp/later.py', 'w').write('known = True')\nsys.path.insert(0, '/tmp')\n"
        "def double(numbers):\n    if 'known' in open('/tmp/calls', 'a+').read(): return [2 * n for n in numbers]\n"
        "    open('/tmp/calls', 'w').write('known')\n"
    ),
    "kills all around it": (
        "import os, signal\ndef double(numbers):\n    os.kill(-1, signal.SIGKILL)\n    return numbers\n"
    ),
    "ends the process it came from": (
        "import os, signal\ndef double(numbers):\n    os.kill(os.getppid() or 1, signal.SIGKILL)\n    return numbers\n"
    ),
    "returns a list of lists of lists": (
        "import functools\ndef double(numbers):\n"
        "    return functools.reduce(lambda inner, turn: [inner, inner], range(60), [])\n"
    ),
    "says its end is odd": (
        "from course_lib.engine import outcome, plain\ndef double(numbers):\n"
        "    odd = {'error': [['x'] * 9] * 9, 'frames': 5, 'when': 'never'}\n"
        "    outcome.pack = lambda ended, packs: plain.pack(('Failed', odd))\n"
        "    return numbers\n"
    ),
    "is no function": "double = 5\n",
    "does not parse": "def double(numbers)\n    return 1\n",
    "is borrowed": 'double = borrow("double")\n',
}
