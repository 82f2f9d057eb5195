#!/usr/bin/env python3
"""What the printed MSL keeps in a thread's registers, as a table in a document, which is also what it may be at most.

    metal_table.py AULEC PAGE [--write [--grown]]

Compiles the configurations below, reads the source of each kernel and follows its values backwards: at every line so many words of 32 bits are needed
later. The most of them is what a compiler that moves nothing needs. Left out is what depends on the kernel's parameters and the block alone,
which is the same in all threads. A kernel that needs more words, more threadgroup memory or a tenth more lines than PAGE says fails, and so does one that
needs fewer words, since that has to be told. --write puts what was found between the page's markers (tools/metal-table), but not while something is worse,
unless --grown says that it may."""
import argparse
import re
import subprocess
import sys
from dataclasses import astuple, dataclass, field
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tools"))
from table_page import TablePage, judge

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT, TYPES, ARCHS = "mha", ("f16", "bf16", "f32"), ("apple7", "apple9")
HEAD = "| kernel | words | arrays | threadgroup | threads | lines | published, words of matrices | ours differs |"
HALVES = {"float": 2, "half": 1, "int": 2, "uint": 2, "long": 4, "ulong": 4, "bool": 1, "ushort": 1, "uchar": 1}  # of a word
BYTES = {"float": 4, "half": 2, "int": 4, "uint": 4, "long": 8, "ushort": 2, "uchar": 1}
TYPE = "|".join(HALVES)
WORD = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(\[\d+\])?")
KERNEL = re.compile(r"max_total_threads_per_threadgroup\((\d+)\)\]\] kernel void (\w+)\(.*?\n\{\n(.*?)\n\}\n", re.S)
DECLARED = re.compile(rf"(?:thread )?(const )?({TYPE})([234]?) (\w+)(.*)")
POINTER = re.compile(r"(device|threadgroup) [\w ]+\*const (\w+) = (.*)")
SHARED = re.compile(r"threadgroup (\w+) \*const \w+ = \(threadgroup \w+ \*\)\(shared \+ (\d+)\)(.*?); // (\d+)")
COUNTED = re.compile(r"for \(int (\w+) = ([^;]*); ([^;]*);.*\{")
ASSIGNED = re.compile(r"((?:\w+(?:\[\d+\])? )+)= (.*);")
PACKED = re.compile(r"\*\(thread (?:const )?packed_[a-z]+(\d) \*\)(?:(\w+)|\((\w+) \+ (\d+)\))")
VARYING = re.compile(r"\bthread_in_simdgroup\b|\bsimdgroup\b|\bsimd_|\w\[(?!\d+\])|\*\(")  # of one thread, or of what memory holds


@dataclass
class Design:
    """metal-flash-attention's kernel for operands of 16 bits, by its tables of parameters and of precisions: eight rows of a matrix's own side are a
    simdgroup's, so a matrix of n columns takes n / 4 elements of a thread. What is not held comes in blocks of channels."""
    rows: int  # of a threadgroup, each simdgroup has 8
    across: int  # keys, or queries, of a tile
    block: int  # channels
    held: str
    matrices: str  # halves of a word that an element takes: of tiles of pairs, then of channels
    why: str

    def words(self, width):
        pairs, channels = (dict(word.split(":") for word in part.split()) for part in self.matrices.split(" / "))
        halves = sum(int(each) * self.across for each in pairs.values())
        halves += sum(int(each) * (width if name in self.held.split() else self.block) for name, each in channels.items())
        return halves // 8

    def __str__(self):
        return f"{self.rows} x {self.across}, blocks of {self.block}" + (f", {self.held} held" if self.held else "")


FORWARD, KEYS7 = "S:1 P:1 / Q:1 O:2", "S:1 P:1 dP:2 dS:2 / K:1 V:1 dV:2 dK:2"
QUERIES9, KEYS9 = "S:1 P:1 dP:2 dS:1 / Q:1 dO:1 dQ:2", "S:1 P:1 dP:2 dS:1 / K:1 V:1 dV:2 dK:2"
ROWS = "16 rows a simdgroup, so that an operand that is read is multiplied twice; scores of f32, theirs of 16 bits"
ONE_KERNEL = "dK, dV and sums of dQ in one kernel, which makes five products of pairs, theirs two that make seven; tiles staged; dP', dS' of f32"
# (architecture, kernel, width): theirs. AttentionDescriptor+Parameters.swift, +Precisions.swift, in the tables of apple9 and of older families.
PUBLISHED = {
    ("apple7", "forward", "64"): Design(32, 128, 32, "Q O", FORWARD, ROWS),
    ("apple7", "forward", "128"): Design(32, 128, 32, "Q", FORWARD, "sums held, theirs pass through memory; 16 keys a tile"),
    ("apple9", "forward", "64"): Design(16, 128, 32, "Q O", FORWARD, ROWS + "; 32 keys a tile"),
    ("apple9", "forward", "128"): Design(16, 128, 32, "O", FORWARD, "queries held, theirs come again for each tile; 64 keys a tile; scores of f32"),
    ("apple7", "backward_dkdv", "64"): Design(32, 64, 32, "dV", KEYS7, ONE_KERNEL),
    ("apple7", "backward_dkdv", "128"): Design(32, 64, 32, "", KEYS7, ONE_KERNEL),
    ("apple9", "backward_dkdv", "64"): Design(16, 32, 16, "V dV dK", KEYS9, "keys held, too; tiles of 16 queries; scores and dP' of f32"),
    ("apple9", "backward_dkdv", "128"): Design(16, 128, 16, "dV dK", KEYS9, "tiles of 16 queries, so that pairs take few; scores and dP' of f32"),
    ("apple9", "backward_dq", "64"): Design(16, 64, 8, "Q dO dQ", QUERIES9, "16 rows a simdgroup, so that an operand that is read is multiplied twice; tiles of 16 keys"),
    ("apple9", "backward_dq", "128"): Design(16, 64, 32, "Q dQ", QUERIES9, "dO held, too; tiles of 16 keys"),
}


@dataclass
class Row:
    words: int
    arrays: int
    threadgroup: int
    threads: int
    lines: int


@dataclass
class Statement:
    """A line: what it defines and looks at; a branch or a loop has bodies."""
    defines: list = field(default_factory=list)
    uses: list = field(default_factory=list)
    bodies: list = field(default_factory=list)
    is_loop: bool = False


def elements(found):
    """Elements of an array of a thread that are moved as a vector: their names."""
    first = int(found.group(4) or 0)
    return " ".join(f"{found.group(2) or found.group(3)}[{first + n}]" for n in range(int(found.group(1))))


class Kernel:
    """The statements of a kernel, with what its variables take: names are made unique, elements of arrays with constant places are variables."""

    def __init__(self, text):
        self.size, self.array, self.uniform = {}, {}, set()
        self.scopes, self.count = [{}], 0
        self.lines = text.split("\n")
        self.at = 0
        self.body = self.block()

    def declare(self, name, halves, uniform, elements=0):
        self.count += 1
        own = f"{name}.{self.count}"
        self.scopes[-1][name] = own
        self.array[own] = elements
        self.size[own] = halves
        if uniform:
            self.uniform.add(own)
        return own

    def find(self, name):
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def parts(self, own, place):
        """The variable, or those elements of it."""
        if not self.array[own]:
            return [own]
        return [own + place] if place else [f"{own}[{n}]" for n in range(self.array[own])]

    def used(self, text):
        names = [(self.find(name), place) for name, place in WORD.findall(text)]
        return [part for own, place in names if own for part in self.parts(own, place)]

    def same_everywhere(self, text):
        owns = [self.find(name) for name, place in WORD.findall(text)]
        return not VARYING.search(text) and all(own in self.uniform for own in owns if own)

    def declaration(self, found):
        const, base, width, name, rest = found.groups()
        halves = HALVES[base] * int(width or 1)
        value = rest.partition(" = ")[2] if not rest.startswith("[") else ""
        uses, uniform = self.used(value), bool(const) and self.same_everywhere(value)
        elements = re.match(r"\[(\d+)\]", rest)
        if elements:
            self.declare(name, halves, False, int(elements.group(1)))
            return Statement()
        names = [name] + re.findall(r", (\w+)(?=[,;])", rest) if not value else [name]
        owns = [self.declare(each, halves, uniform) for each in names]
        return Statement(owns if value else [], uses)

    def opening(self, line):
        counted = COUNTED.match(line)
        is_loop = bool(re.match(r"for |while |do ", line))
        self.scopes.append({})
        uses, defines = [], []
        if counted:
            name, low, high = counted.groups()
            uses = self.used(low) + self.used(high.replace(name, "", 1))
            defines = [self.declare(name, HALVES["int"], self.same_everywhere(low))]
        else:
            uses = self.used(line)
        bodies = [self.block()]
        while self.lines[self.at - 1].strip().startswith("} else"):
            bodies.append(self.block())
        self.scopes.pop()
        return Statement(defines, uses, bodies, is_loop)

    def block(self):
        statements = []
        self.scopes.append({})
        while self.at < len(self.lines):
            line = self.lines[self.at].split(" // ")[0].strip()
            self.at += 1
            if line.startswith("}"):
                break
            if not line or line.startswith(("//", "#")):
                continue
            statements.append(self.statement(line))
        self.scopes.pop()
        return statements

    def statement(self, line):
        line = PACKED.sub(elements, line)
        pointer, assigned = POINTER.match(line), ASSIGNED.fullmatch(line)
        if line.endswith("{"):
            return self.opening(line)
        if pointer:
            uses, uniform = self.used(pointer.group(3)), self.same_everywhere(pointer.group(3))
            return Statement([self.declare(pointer.group(2), 4 if pointer.group(1) == "device" else 2, uniform)], uses)
        if found := DECLARED.match(line):
            return self.declaration(found)
        if not assigned:
            return Statement([], self.used(line))
        return Statement(self.used(assigned.group(1)), self.used(assigned.group(2)))

    # ---- what is needed later

    def words(self, live):
        return sum(self.size[part.partition("[")[0]] for part in live)

    def look(self, live):
        self.most = max(self.most, (self.words(live), self.words([part for part in live if "[" in part])))

    def before(self, statements, live):
        for s in reversed(statements):
            if s.bodies and s.is_loop:
                while True:
                    turn = live | self.before(s.bodies[0], live)
                    if turn == live:
                        break
                    live = turn
                live = live - set(s.defines)
            elif s.bodies:
                ways = [self.before(body, live) for body in s.bodies] + ([live] if len(s.bodies) == 1 else [])
                live = set().union(*ways)
            else:
                live = live - set(s.defines)
            live = live | {part for part in s.uses if part.partition("[")[0] not in self.uniform}
            self.look(live)
        return live

    def needs(self):
        """Words at most, and how many of them then are elements of arrays."""
        self.most = (0, 0)
        self.before(self.body, set())
        return [-(-halves // 2) for halves in self.most]


def shared_bytes(text, threads):
    most = 0
    for base, offset, own, count in SHARED.findall(text):
        most = max(most, int(offset) + BYTES[base] * int(count) * (threads // 32 if own else 1))
    return most


def rows(text):
    for threads, name, body in KERNEL.findall(text):
        words, arrays = Kernel(body).needs()
        yield name, Row(words, arrays, shared_bytes(body, int(threads)), int(threads), body.count("\n"))


def measure(aulec):
    """{(type, width, architecture, kernel): Row}"""
    table = {}
    for dtype, arch in ((dtype, arch) for dtype in TYPES for arch in ARCHS):
        if dtype == "f32" and arch != ARCHS[0]:  # no matrices: one architecture's kernels serve all
            continue
        made = subprocess.run([aulec, ROOT / f"attn_scripts/{SCRIPT}.attn", "--target=metal", f"--arch={arch}", f"--dtype={dtype}", "--emit=metal"],
                              capture_output=True, text=True)
        if made.returncode:
            sys.exit(made.stderr)
        for name, row in rows(made.stdout):
            _, _, width, _, kernel = name.split("_", 4)
            table[(dtype, width, arch, kernel)] = row
    return dict(sorted(table.items(), key=lambda of: (TYPES.index(of[0][0]), ARCHS.index(of[0][2]), int(of[0][1]))))


def beside(key):
    """The published design that a kernel is compared with, and why ours differs."""
    dtype, width, arch, kernel = key
    design = PUBLISHED.get((arch, kernel, width)) if dtype != "f32" else None
    return [f"{design.words(int(width))}: {design}", design.why] if design else ["", ""]


def written(table):
    lines = [HEAD, "|" + "---|" * 8]
    lines += [f"| {' '.join(key)} | " + " | ".join(map(str, [*astuple(row), *beside(key)])) + " |" for key, row in table.items()]
    return "\n".join(lines)


def allowed(text):
    known = {}
    for line in text.splitlines():
        cells = [word.strip() for word in line.strip().strip("|").split("|")]
        if len(cells) >= 6 and len(cells[0].split()) == 4:
            known[tuple(cells[0].split())] = Row(*map(int, cells[1:6]))
    return known


def compare(table, known):
    """Lines of what has become worse, and of what has become better."""
    worse = [f"{' '.join(key)}: there is none any more" for key in known if key not in table]
    better = []
    for key, row in table.items():
        was = known.get(key)
        if not was:
            worse.append(f"{' '.join(key)}: not in the page, {row}")
        elif row.words > was.words or row.threadgroup > was.threadgroup or row.lines > 1.1 * was.lines:
            worse.append(f"{' '.join(key)}: {row}; the page says {was}")
        elif row.words < was.words or row.threadgroup < was.threadgroup:
            better.append(f"{' '.join(key)}: {row}; the page says {was}")
    return worse, better


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("aulec")
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--grown", action="store_true")
    arguments = parser.parse_args()
    page = TablePage(arguments.page, "metal")
    table = measure(arguments.aulec)
    worse, better = compare(table, allowed(page.text))
    judge(page, table, written, worse, better, arguments, "tools/metal-table")


if __name__ == "__main__":
    main()
