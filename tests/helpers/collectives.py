"""Collectives of a compiled program that devices could start in different orders.

XLA's CPU runtime runs independent instructions concurrently. It starts collectives of one computation in the
same order on every device, but a conditional or a loop counts as started before the collectives inside it
have: another collective that neither feeds it nor follows from it may overtake them on one device and not on
another, and both wait for ever.
"""

import re

COLLECTIVE = re.compile(r"(all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(-start)?")
NAME = re.compile(r"%([\w.\-]+)")
CONTROL_FLOW = ("while", "conditional", "call")
HEAD = re.compile(r"(?:ENTRY )?%([\w.\-]+) \(.*\{$")
INSTRUCTION = re.compile(r"  (?:ROOT )?%([\w.\-]+) = .*?[\])}] ([a-z][\w\-]*)\((.*)$")


def unordered(program: str) -> list[tuple[str, str]]:
    """Pairs of a conditional or loop with collectives inside, and something collective independent of it."""
    computations = _parse(program)
    collective: dict[str, bool] = {}

    def has_collective(computation: str) -> bool:
        if computation not in collective:
            collective[computation] = any(
                COLLECTIVE.fullmatch(operation) or any(map(has_collective, called))
                for _, operation, _, called in computations[computation]
            )
        return collective[computation]

    found = []
    for instructions in computations.values():
        inside = {
            name
            for name, operation, _, called in instructions
            if operation in CONTROL_FLOW and any(map(has_collective, called))
        }
        direct = {name for name, operation, _, _ in instructions if COLLECTIVE.fullmatch(operation)}
        behind: dict[str, set[str]] = {}
        for name, _, operands, _ in instructions:
            behind[name] = set(operands).union(*(behind[operand] for operand in operands))
        found += [
            (one, other)
            for one in inside
            for other in inside | direct
            if other != one and one not in behind[other] and other not in behind[one]
        ]
    return found


def _parse(program: str) -> dict[str, list[tuple[str, str, list[str], list[str]]]]:
    """Of each computation its instructions in order: name, operation, operands, and what it calls."""
    computations: dict[str, list[tuple[str, str, list[str], list[str]]]] = {}
    current: list[tuple[str, str, list[str], list[str]]] = []
    known: set[str] = set()
    for line in program.splitlines():
        if head := HEAD.match(line):
            current, known = [], set()
            computations[head[1]] = current
        elif instruction := INSTRUCTION.match(line):
            name, operation, rest = instruction.groups()
            names = NAME.findall(rest)
            called = [other for other in names if other in computations]
            current.append((name, operation, [other for other in names if other in known], called))
            known.add(name)
    return computations
