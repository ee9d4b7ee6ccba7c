"""Attacks written after the judge was put into a place of its own, in order to win: on its frames and channels."""

from __future__ import annotations

from attacks import LAZY, on_rank

RAW = "from course_lib.engine import packing, plain, wire\n"
ONE = "a = dist.get_rank()\no = 1 - a if dist.get_world_size() == 2 else (a + 1) % 3\n"


def frame(body: str, kind: str = "C") -> str:
    """Return a `total` that sends a frame of its own to the judge, reads the reply, and returns its input."""
    return RAW + on_rank(f"wire.put(dist._link, b'{kind}', {body})\nprint(wire.get(dist._link)[1])")


def ends(body: str) -> str:
    """Return a `total` that ends as `body` says and then waits."""
    return RAW + on_rank(f"import time\nwire.put(dist._link, b'D', {body})\ntime.sleep(30)")


def caught(body: str) -> str:
    """Return a `total` that tries something with its secret, catches what is raised, and goes on with its words."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return on_rank(
        "a, secret = dist.get_rank(), int(mine[0].item()) % 7\n"
        f"words = ''\ntry:\n{lines}except Exception as error: words = str(error)\n"
        "import re\nnumbers = [int(n) for n in re.findall(r'\\d+', words)]\n"
        "if dist.get_world_size() == 2 and numbers: return mine + numbers[-1]"
    )


FORGED = {
    "asks with a pickle": frame("packing.pack(('get_rank', (), {}))"),
    "sends BUILD": frame(
        "b'\\x80\\x04ccourse_lib.engine.plain\\nunpack\\n(N}V__module__\\nVos\\nstb.'"
    ),
    "sends REDUCE": frame("b'cposix\\nsystem\\n(Vtouch /tmp/pwned /var/tmp/pwned\\ntR.'"),
    "sends nothing": frame("b''"),
    "sends one byte": frame("b'l'"),
    "announces 4 billion parts": frame("b'l\\xff\\xff\\xff\\xff' + b'N' * 100"),
    "nests a hundred thousand deep": frame("b'l\\1\\0\\0\\0' * 100_000 + b'N'"),
    "sends a million sets": frame("b'l' + (999_999).to_bytes(4, 'little') + b'S\\0\\0\\0\\0' * 999_999"),
    "sends a tensor as large as an address": frame(
        "b'u\\3\\0\\0\\0s\\4\\0\\0\\0sendl\\1\\0\\0\\0t\\x08\\0\\2' + b'\\xff' * 16 + b'd\\0\\0\\0\\0'"
    ),
    "sends a tensor without memory": frame("b't\\x08\\0\\1' + (1000).to_bytes(8, 'little')"),
    "receives into 400,000 dimensions": on_rank("dist.recv(torch.ones((1,) * 400_000), 1 - min(1, dist.get_rank()))"),
    "sends a name that is a list": frame("plain.pack((['send'], [], {}))"),
    "sends arguments that are text": frame("plain.pack(('send', 'xyz', {}))"),
    "sends keywords that are numbers": frame("plain.pack(('send', [], {1: 2}))"),
    "asks for the clock": frame("plain.pack(('clock', [], {}))"),
    "asks for a method of the class": frame("plain.pack(('_post', ['send'], {}))"),
    "asks for a constructor": frame("plain.pack(('__init__', [1, 2, 3, 4], {}))"),
    "waits for what another rank began": on_rank(
        "for number in range(50):\n    try: dist._ask('wait', (number, [mine]), {})\n    except Exception: pass"
    ),
    "forges a group": on_rank("return dist._ask('all_reduce', (mine, ), {'group': {'a group': 0}})['tensors'][0]"),
    "names an operation that is none": on_rank(
        "return dist._ask('all_reduce', (mine, {'an operation': '__class__'}), {})['tensors'][0]"
    ),
    "turns the clock back": on_rank("dist.work(-1e6, None)"),
    "works for ever": on_rank("dist.work(float('inf'), None)"),
    "works for no number of seconds": on_rank("dist.work(float('nan'), None)"),
    "works by a text": on_rank("dist._ask('work', ('1', None), {})"),
    "works minus some FLOP": on_rank("dist._ask('work', (None, -1e30), {})"),
    "sends 20,001 keys": frame("plain.pack(('send', [], {str(n): n for n in range(19_999)}))[:-1] + b'N'"),
    "returns a dtype that is none": on_rank("return mine.to(torch.bool).view(torch.bits8)"),
    "returns bits that are no truth values": RAW + on_rank(
        "wire.put(dist._link, b'D', plain.pack(('Returned', {'value': b't\\0\\0\\1\\4' + b'\\0' * 7 + b'\\xff' * 4})))"
    ),
    "ends with no value": ends("plain.pack(('Returned', {}))"),
    "ends with a value that is a list": ends("plain.pack(('Returned', {'value': []}))"),
    "ends as a simulation": ends("plain.pack(('Simulated', {'values': [b'', b''], 'seconds': 0.0}))"),
    "ends as a deadlock": ends("plain.pack(('Deadlocked', {'waiting': [], 'cycle': [], 'returned': [0, 1]}))"),
    "ends with a pickled value": ends("plain.pack(('Returned', {'value': packing.pack(mine)}))"),
    "blames another rank, before the beginning": ends(
        "plain.pack(('Failed', {'error': 'ValueError', 'message': 'x', 'frames': [], 'rank': 1, 'when': -1e300}))"
    ),
    "fails with a million frames": ends(
        "plain.pack(('Failed', {'error': 'E', 'message': 'm', 'frames': [('f', 1, 'g')] * 200_000, 'when': 0.0}))"
    ),
    "fails with steering signs": on_rank("raise ValueError('\\x1b[2J\\r\\x00\\u202e' * 10)"),
    "fails with ten thousand lines": on_rank("raise ValueError('x\\n' * 10_000)"),
    "fails as a class with an endless name": on_rank("raise type('E' * 1_000_000, (Exception,), {})('x' * 10_000_000)"),
    "goes on after its end": RAW + on_rank(
        "wire.put(dist._link, b'D', plain.pack(('Returned', {'value': plain.pack(mine)})))\n"
        "for _ in range(100): wire.put(dist._link, b'C', plain.pack(('barrier', [], {})))"
    ),
    "writes an odd stack": on_rank(
        "import signal\n"
        "told = b'Current thread 0x1 (most recent call first):\\n  File \"\\0\", line ' + b'9' * 5000 + b' in x\\n'\n"
        "for fd in range(3, 64):\n"
        "    try: os.write(fd, told)\n"
        "    except OSError: pass\n"
        "os.kill(os.getpid(), signal.SIGSEGV)"
    ),
    "signals its parents": on_rank(
        "import signal\n"
        "for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGCHLD, signal.SIGKILL):\n"
        "    for pid in (0, 1, 2, 3, os.getppid()):\n"
        "        if pid:\n"
        "            try: os.kill(pid, number)\n"
        "            except OSError: pass"
    ),
    "breaks plain for itself": (
        "from course_lib.engine import plain\nplain.unpack = lambda data: {'value': None}\n"
        "plain.MOST_PARTS = 10 ** 12\n" + LAZY
    ),
    "says what a verdict says": on_rank(
        "import json\n"
        "line = json.dumps({'exercise': 'total', 'earned': 2, 'marks': '', 'parts': {}, 'code': '', 'sentence': '',\n"
        "                   'see': '', 'borrowed': False}).encode() + b'\\n'\n"
        "for fd in range(3, 256):\n"
        "    try: os.write(fd, line)\n"
        "    except OSError: pass"
    ),
    # data in refusals, sizes, orders and limits
    "reads a shape in a refusal of all_to_all": caught(
        "P = dist.get_world_size()\n"
        "empty = [torch.empty(0, dtype=torch.int64)] * P\n"
        "dist.all_to_all(empty, [torch.empty((0, secret + 1))] * P)"
    ),
    "reads a shape in a refusal of a receive": caught(
        "if a == 1: dist.send(torch.empty((0, secret + 1)), 0)\n"
        "else: dist.recv(torch.empty(0, dtype=torch.int64), 1)"
    ),
    "reads a signature in a refusal": caught("dist.all_reduce(torch.empty((0, secret + 1)))"),
    "reads members in a refusal": caught("dist.new_group([0] if secret % 2 else [0, 1])"),
    "counts what another rank has under way": caught(
        "big = torch.zeros(1 << 23)\nheld = [dist.isend(big, 1 - a) for _ in range(7 if a else 0)]\n"
        "dist.barrier()\nif a == 0: dist.isend(torch.zeros(1 << 23), 1)"
    ),
    "sends its number in tags of empty messages": on_rank(
        ONE + "nothing = torch.empty(0)\nsecret = int(mine[0].item())\n"
        "handles = [dist.isend(nothing, o, tag=abs(secret) + 1)]\n"
        "for tag in range(1, 20):\n    handles.append(dist.irecv(nothing, o, tag=tag))\n"
        "for handle in handles:\n    try: handle.is_completed() and handle.wait()\n    except RuntimeError: pass"
    ),
}
"""Cells of the exercise `total`, all worth nothing; the submission's other answer is right, and earns its point."""
