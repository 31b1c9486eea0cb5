r"""Bytes and operations of a compiled program, counted from its optimized HLO text.

XLA gives no cost analysis of a program that was compiled for a GPU which is not there, but it gives the
program's text. There every instruction of a computation is one kernel: it reads its operands once, of an
operand that it only slices the slices, and writes its results once. What caches save and what uncoalesced
access wastes is not in the count. Operations are those of matrix products, ``2 m n k`` each.
"""

import math
import re
from typing import NamedTuple

BYTES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2}
BYTES |= {"s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}

NO_KERNEL = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional"}
NO_KERNEL |= {"call", "after-all", "iota", "partition-id", "replica-id"}
"""Instructions that move nothing themselves."""

_ARRAY = re.compile(rf"\b({'|'.join(BYTES)})\[([\d,]*)\]")
_COMPUTATION = re.compile(r"^(ENTRY )?%([\w.\-]+) \(.*\{\s*$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%([\w.\-]+) = (.*)$")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")


class Instruction(NamedTuple):
    """One line of a computation: ``name = type op(operands), attributes``."""

    name: str
    type: str
    op: str
    operands: list[str]
    attributes: str
    is_root: bool

    @property
    def called(self) -> list[str]:
        """Computations that it calls."""
        branches = ",".join(_BRANCHES.findall(self.attributes))
        return _CALLED.findall(self.attributes) + re.findall(r"%([\w.\-]+)", branches)


class Kernel(NamedTuple):
    """What one instruction reads and writes, in bytes, and the operations of its matrix products."""

    name: str
    op: str
    read: int
    written: int
    flops: int

    @property
    def bytes(self) -> int:
        """All that it moves."""
        return self.read + self.written


class Program(NamedTuple):
    """The computations of a program by name, and which of them is its entry."""

    computations: dict[str, list[Instruction]]
    entry: str

    def kernels(self, computation: str) -> list[Kernel]:
        """The kernels of a computation; loops and branches that it runs are not included."""
        body = self.computations[computation]
        return [self._kernel(each, body) for each in body if each.op not in NO_KERNEL]

    def busiest(self) -> str:
        """The computation with most operations: the entry of a gradient, the loop's body of a run."""
        fused = {
            name
            for body in self.computations.values()
            for each in body
            if each.op not in ("while", "conditional", "call")
            for name in each.called
        }
        names = [name for name in self.computations if name not in fused]
        return max(names, key=lambda name: sum(kernel.flops for kernel in self.kernels(name)))

    def reachable(self, computation: str) -> list[Instruction]:
        """All instructions that a computation runs, with those of everything that it calls."""
        found, waiting = {}, [computation]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = self.computations[name]
                waiting += [called for each in found[name] for called in each.called]
        return [each for body in found.values() for each in body]

    def _kernel(self, instruction: Instruction, body: list[Instruction]) -> Kernel:
        types = {each.name: each.type for each in body}
        name, op = instruction.name, instruction.op
        if op == "fusion":
            inner = self.computations[instruction.called[0]]
            return Kernel(name, op, _read(inner), _written(inner), self._flops(inner))
        read = sum(n_bytes(types[operand]) for operand in instruction.operands)
        if op == "custom-call":  # a library's product; what follows its first result is scratch space
            flops = _library_flops(instruction, types)
            return Kernel(name, op, read, n_bytes(arrays(instruction.type)[0]), flops)
        return Kernel(name, op, read, n_bytes(instruction.type), self._flops([instruction], types))

    def _flops(self, body: list[Instruction], types: dict[str, str] | None = None) -> int:
        types = types or {each.name: each.type for each in body}
        total = 0
        for each in body:
            if each.op == "dot":
                contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", each.attributes)
                total += _product(each.type, types[each.operands[0]], contracted[1] if contracted else "")
            elif each.op == "fusion":
                total += self._flops(self.computations[each.called[0]])
        return total


def parse(text: str) -> Program:
    """Read the text of a compiled program."""
    computations: dict[str, list[Instruction]] = {}
    entry, current = "", None
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            current = computations.setdefault(header[2], [])
            entry = header[2] if header[1] else entry
        elif line.startswith("}"):
            current = None
        elif current is not None and (found := _INSTRUCTION.match(line)):
            current.append(_instruction(found[2], found[3], bool(found[1])))
    return Program(computations, entry)


def _instruction(name: str, rest: str, is_root: bool) -> Instruction:
    kind, rest = _split(rest) if rest.startswith("(") else rest.split(" ", 1)
    op, rest = rest.strip().split("(", 1)
    inside, attributes = _split("(" + rest)
    operands = [] if op in ("constant", "parameter") else re.findall(r"%([\w.\-]+)", inside)
    return Instruction(name, kind, op, operands, attributes, is_root)


def _split(text: str) -> tuple[str, str]:
    """Text up to the parenthesis that closes its first one, and the rest."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[: i + 1], text[i + 1 :]
    raise ValueError(f"no closing parenthesis in {text[:80]!r}")


def arrays(kind: str) -> list[str]:
    """The arrays of a type, of which a tuple has several."""
    return [match[0] for match in _ARRAY.finditer(kind)]


def shape(array: str) -> list[int]:
    """The lengths of an array's axes."""
    found = _ARRAY.search(array)
    return [int(length) for length in found[2].split(",") if length] if found else []


def n_bytes(kind: str) -> int:
    """Size of a type, all arrays of a tuple together."""
    return sum(BYTES[array.split("[")[0]] * math.prod(shape(array)) for array in arrays(kind))


def _read(fused: list[Instruction]) -> int:
    """Bytes that a fusion reads: its parameters, or the slices that it takes of them."""
    users: dict[str, list[Instruction]] = {}
    for each in fused:
        for operand in each.operands:
            users.setdefault(operand, []).append(each)

    def read(value: Instruction) -> int:
        total = 0
        for user in users.get(value.name, []):
            if user.op in ("slice", "dynamic-slice") and user.operands[0] == value.name:
                total += n_bytes(user.type)
            elif user.op == "bitcast":
                total += read(user)
            elif not (user.op == "dynamic-update-slice" and user.operands[0] == value.name):
                return n_bytes(value.type)
        return min(total, n_bytes(value.type))

    return sum(read(each) for each in fused if each.op == "parameter")


def _written(fused: list[Instruction]) -> int:
    """Bytes that a fusion writes: its results, of an update in place the update."""
    by_name = {each.name: each for each in fused}

    def written(value: Instruction) -> int:
        if value.op == "tuple":
            return sum(written(by_name[operand]) for operand in value.operands)
        source = value
        while source.op == "bitcast":
            source = by_name[source.operands[0]]
        if source.op == "dynamic-update-slice":
            return n_bytes(by_name[source.operands[1]].type)
        return n_bytes(value.type)

    return written(next(each for each in fused if each.is_root))


def _library_flops(call: Instruction, types: dict[str, str]) -> int:
    """Operations of a call to a library; none unless it is a matrix product."""
    contracted = re.search(r'"lhs_contracting_dimensions":\[([^\]]*)\]', call.attributes)
    if contracted is None:
        return 0
    return _product(arrays(call.type)[0], types[call.operands[0]], contracted[1].replace('"', ""))


def _product(result: str, left: str, contracted: str) -> int:
    axes = [int(axis) for axis in contracted.split(",") if axis]
    return 2 * math.prod(shape(result)) * math.prod(shape(left)[axis] for axis in axes)
